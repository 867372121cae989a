#include "compiler/toolchain/clang.h"

#include <clang/Basic/Diagnostic.h>
#include <clang/Basic/SourceManager.h>
#include <clang/CodeGen/CodeGenAction.h>
#include <clang/Frontend/CompilerInstance.h>
#include <clang/Frontend/CompilerInvocation.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/Support/MemoryBuffer.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/VirtualFileSystem.h>
#include <llvm/Support/raw_ostream.h>

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
  });
}

}  // namespace

ToolResult clang_compile(const CompileJob& job) {
  initialize_targets();
  ErrorText errors;
  const llvm::IntrusiveRefCntPtr<clang::DiagnosticsEngine> diagnostics(
      new clang::DiagnosticsEngine(new clang::DiagnosticIDs, new clang::DiagnosticOptions, &errors,
                                   /*ShouldOwnClient=*/false));

  const std::string path = kFolder + job.name + ".cpp";
  const std::string include = std::string("-I") + kFolder;
  std::vector<const char*> args;
  for (const std::string& flag : job.flags) args.push_back(flag.c_str());
  for (const char* flag :
       {"-emit-obj", "-x", "c++", "-w", "-fno-caret-diagnostics", include.c_str(), path.c_str()})
    args.push_back(flag);
  auto invocation = std::make_shared<clang::CompilerInvocation>();
  if (!clang::CompilerInvocation::CreateFromArgs(*invocation, args, *diagnostics))
    return {{}, "bad compiler flags\n" + errors.text()};

  const llvm::IntrusiveRefCntPtr<llvm::vfs::InMemoryFileSystem> files(
      new llvm::vfs::InMemoryFileSystem);
  files->addFile(path, 0, llvm::MemoryBuffer::getMemBuffer(job.text, path));
  for (const auto& [name, text] : job.headers)
    files->addFile(kFolder + name, 0, llvm::MemoryBuffer::getMemBuffer(text, name));

  llvm::SmallVector<char, 0> object;
  clang::CompilerInstance compiler;
  compiler.setInvocation(std::move(invocation));
  compiler.setDiagnostics(diagnostics.get());
  compiler.createFileManager(files);
  compiler.setOutputStream(std::make_unique<llvm::raw_svector_ostream>(object));
  llvm::LLVMContext context;
  clang::EmitObjAction action(&context);
  const bool done = compiler.ExecuteAction(action) && errors.getNumErrors() == 0;
  if (!done) return {{}, errors.text().empty() ? "the compiler gave no reason" : errors.text()};
  return {std::string(object.data(), object.size()), {}};
}

}  // namespace nacre
