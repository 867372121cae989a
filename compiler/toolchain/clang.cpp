#include "compiler/toolchain/clang.h"

#include <clang/Basic/Diagnostic.h>
#include <clang/Basic/SourceManager.h>
#include <clang/CodeGen/CodeGenAction.h>
#include <clang/Frontend/CompilerInstance.h>
#include <clang/Frontend/CompilerInvocation.h>
#include <clang/Frontend/FrontendAction.h>
#include <clang/Serialization/ASTWriter.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/Support/MemoryBuffer.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/VirtualFileSystem.h>
#include <llvm/Support/raw_ostream.h>

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>

namespace nacre {
namespace {

constexpr const char* kFolder = "/kernel/";

// Keeps the errors as `file:line:column: message` with the line itself below, and drops the rest:
// warnings about generated code are of no use to anybody.
class ErrorText : public clang::DiagnosticConsumer {
 public:
  void HandleDiagnostic(clang::DiagnosticsEngine::Level level,
                        const clang::Diagnostic& diagnostic) override {
    DiagnosticConsumer::HandleDiagnostic(level, diagnostic);
    const bool note = level == clang::DiagnosticsEngine::Note;
    if (level < clang::DiagnosticsEngine::Error && !(note && after_error_)) {
      if (!note) after_error_ = false;
      return;
    }
    after_error_ = true;
    if (++count_ > kMost) return;
    llvm::SmallString<256> message;
    diagnostic.FormatDiagnostic(message);
    if (diagnostic.hasSourceManager() && diagnostic.getLocation().isValid()) {
      const clang::SourceManager& sources = diagnostic.getSourceManager();
      const clang::PresumedLoc place = sources.getPresumedLoc(diagnostic.getLocation());
      llvm::StringRef file = place.getFilename();
      file.consume_front(kFolder);
      text_ +=
          (file + ":" + llvm::Twine(place.getLine()) + ":" + llvm::Twine(place.getColumn()) + ": ")
              .str();
      text_ += note ? "note: " : "";
      text_ += message.str().str() + "\n" + line_at(sources, diagnostic.getLocation());
    } else {
      text_ += message.str().str() + "\n";
    }
  }
  // Without the last line end.
  std::string text() const { return text_.substr(0, text_.find_last_not_of('\n') + 1); }

 private:
  static constexpr int kMost = 12;

  static std::string line_at(const clang::SourceManager& sources, clang::SourceLocation location) {
    const auto [file, offset] = sources.getDecomposedExpansionLoc(location);
    const llvm::StringRef buffer = sources.getBufferData(file);
    const std::size_t begin = buffer.rfind('\n', offset) + 1;  // npos + 1 is 0
    return "    " + buffer.slice(begin, buffer.find('\n', offset)).str() + "\n";
  }

  std::string text_;
  bool after_error_ = false;
  int count_ = 0;
};

void initialize_targets() {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    LLVMInitializeX86AsmParser();
    LLVMInitializeAArch64TargetInfo();
    LLVMInitializeAArch64Target();
    LLVMInitializeAArch64TargetMC();
    LLVMInitializeAArch64AsmPrinter();
    LLVMInitializeAArch64AsmParser();
    LLVMInitializeARMTargetInfo();
    LLVMInitializeARMTarget();
    LLVMInitializeARMTargetMC();
    LLVMInitializeARMAsmPrinter();
    LLVMInitializeARMAsmParser();
    LLVMInitializeRISCVTargetInfo();
    LLVMInitializeRISCVTarget();
    LLVMInitializeRISCVTargetMC();
    LLVMInitializeRISCVAsmPrinter();
    LLVMInitializeRISCVAsmParser();
  });
}

// One run of the compiler over `main`, a name and text in /kernel, beside the headers of the job.
// Texts are not copied.
class Compilation {
 public:
  Compilation(const CompileJob& job, const std::string& main, const std::string& text,
              const std::vector<std::string>& further_flags)
      : diagnostics_(new clang::DiagnosticsEngine(new clang::DiagnosticIDs,
                                                  new clang::DiagnosticOptions, &errors_,
                                                  /*ShouldOwnClient=*/false)),
        files_(new llvm::vfs::InMemoryFileSystem) {
    const std::string path = kFolder + main;
    const std::string include = std::string("-I") + kFolder;
    std::vector<const char*> args;
    for (const std::string& flag : job.flags) args.push_back(flag.c_str());
    for (const std::string& flag : further_flags) args.push_back(flag.c_str());
    for (const char* flag :
         {"-emit-obj", "-x", "c++", "-w", "-fno-caret-diagnostics", include.c_str(), path.c_str()})
      args.push_back(flag);
    auto invocation = std::make_shared<clang::CompilerInvocation>();
    understood_ = clang::CompilerInvocation::CreateFromArgs(*invocation, args, *diagnostics_);
    add_file(main, text);
    for (const auto& [name, header] : job.headers) add_file(name, header);
    compiler_.setInvocation(std::move(invocation));
    compiler_.setDiagnostics(diagnostics_.get());
    compiler_.createFileManager(files_);
  }

  void add_file(const std::string& name, llvm::StringRef text) {
    files_->addFile(kFolder + name, 0, llvm::MemoryBuffer::getMemBuffer(text, name, false));
  }

  bool run(clang::FrontendAction& action) {
    return understood_ && compiler_.ExecuteAction(action) && errors_.getNumErrors() == 0;
  }

  clang::CompilerInstance& compiler() { return compiler_; }
  std::string error() const {
    if (!understood_) return "bad compiler flags\n" + errors_.text();
    return errors_.text().empty() ? "the compiler gave no reason" : errors_.text();
  }

 private:
  ErrorText errors_;
  llvm::IntrusiveRefCntPtr<clang::DiagnosticsEngine> diagnostics_;
  llvm::IntrusiveRefCntPtr<llvm::vfs::InMemoryFileSystem> files_;
  clang::CompilerInstance compiler_;
  bool understood_ = false;
};

// Keeps what Clang knows after a header, as bytes from which it goes on.
class PrecompileAction : public clang::ASTFrontendAction {
 public:
  std::string bytes() const {
    return buffer_->IsComplete ? std::string(buffer_->Data.data(), buffer_->Data.size()) : "";
  }

 private:
  std::unique_ptr<clang::ASTConsumer> CreateASTConsumer(clang::CompilerInstance& compiler,
                                                        llvm::StringRef) override {
    return std::make_unique<clang::PCHGenerator>(
        compiler.getPreprocessor(), compiler.getModuleCache(), "", "", buffer_,
        llvm::ArrayRef<std::shared_ptr<clang::ModuleFileExtension>>());
  }
  clang::TranslationUnitKind getTranslationUnitKind() override { return clang::TU_Prefix; }

  std::shared_ptr<clang::PCHBuffer> buffer_ = std::make_shared<clang::PCHBuffer>();
};

// The job's common header, parsed once a process for each set of flags. Empty where it cannot be:
// the job itself then says why.
const std::string& precompiled(const CompileJob& job) {
  static std::mutex lock;
  static std::map<std::vector<std::string>, std::string> all;
  const std::lock_guard<std::mutex> guard(lock);
  std::vector<std::string> key = job.flags;
  key.push_back(job.common);
  auto [found, is_new] = all.try_emplace(std::move(key));
  if (is_new) {
    const auto header = std::find_if(job.headers.begin(), job.headers.end(),
                                     [&](const auto& h) { return h.first == job.common; });
    if (header == job.headers.end()) return found->second;
    Compilation compilation(job, header->first, header->second, {});
    PrecompileAction action;
    if (compilation.run(action)) found->second = action.bytes();
  }
  return found->second;
}

}  // namespace

ToolResult clang_compile(const CompileJob& job) {
  initialize_targets();
  static const std::string none;
  const std::string& common = job.common.empty() ? none : precompiled(job);
  std::vector<std::string> flags;
  if (!common.empty()) flags = {"-include-pch", std::string(kFolder) + "common.pch"};
  Compilation compilation(job, job.name + ".cpp", job.text, flags);
  if (!common.empty()) compilation.add_file("common.pch", common);

  llvm::SmallVector<char, 0> object;
  compilation.compiler().setOutputStream(std::make_unique<llvm::raw_svector_ostream>(object));
  llvm::LLVMContext context;
  clang::EmitObjAction action(&context);
  if (!compilation.run(action)) return {{}, compilation.error()};
  return {std::string(object.data(), object.size()), {}};
}

}  // namespace nacre
