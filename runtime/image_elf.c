// Loads a position-independent image (ET_DYN without interpreter and libraries), for the processor
// that this is compiled for.
//
// Segments are copied to fresh pages, relocated, and then get their rights; no page is ever
// writable and executable. Images made by nacre have no relocations but imports of memcpy and its
// kin, if any; others are understood so that a linker's choices do not matter.
#include <elf.h>
#include <stdbool.h>
#include <string.h>

#include "formats/features.h"
#include "runtime/image.h"
#include "runtime/os.h"

#if defined(__x86_64__)
enum {
  kRelative = R_X86_64_RELATIVE,
  kAbsolute = R_X86_64_64,
  kGlobal = R_X86_64_GLOB_DAT,
  kJump = R_X86_64_JUMP_SLOT
};
#elif defined(__aarch64__)
enum {
  kRelative = R_AARCH64_RELATIVE,
  kAbsolute = R_AARCH64_ABS64,
  kGlobal = R_AARCH64_GLOB_DAT,
  kJump = R_AARCH64_JUMP_SLOT
};
#elif defined(__riscv)
enum {
  kRelative = R_RISCV_RELATIVE,
  kAbsolute = R_RISCV_64,
  kGlobal = -1,
  kJump = R_RISCV_JUMP_SLOT
};
#elif defined(__arm__)
enum {
  kRelative = R_ARM_RELATIVE,
  kAbsolute = R_ARM_ABS32,
  kGlobal = R_ARM_GLOB_DAT,
  kJump = R_ARM_JUMP_SLOT
};
#endif

#if __SIZEOF_POINTER__ == 8
typedef Elf64_Ehdr ElfHeader;
typedef Elf64_Phdr ElfSegment;
typedef Elf64_Dyn ElfDynamic;
typedef Elf64_Sym ElfSymbol;
typedef Elf64_Rela ElfRela;
typedef Elf64_Rel ElfRel;
#define ELF_CLASS ELFCLASS64
#define ELF_SYMBOL(info) ELF64_R_SYM(info)
#define ELF_TYPE(info) ELF64_R_TYPE(info)
#else
typedef Elf32_Ehdr ElfHeader;
typedef Elf32_Phdr ElfSegment;
typedef Elf32_Dyn ElfDynamic;
typedef Elf32_Sym ElfSymbol;
typedef Elf32_Rela ElfRela;
typedef Elf32_Rel ElfRel;
#define ELF_CLASS ELFCLASS32
#define ELF_SYMBOL(info) ELF32_R_SYM(info)
#define ELF_TYPE(info) ELF32_R_TYPE(info)
#endif

enum { kMaxSegments = 16 };
static const size_t kMaxImage = (size_t)1 << 30;

static const char* const kBounds = "its code image reaches out of its bounds";
static const char* const kForm = "its code image is not an ELF shared object as nacre makes them";

struct loading {
  struct nacre_image* image;
  ElfSegment segments[kMaxSegments];
  uint32_t segment_count;
  // From the dynamic section.
  size_t symbols, strings, strings_size;
  struct {
    size_t offset, size;
    bool has_addend;
  } tables[3];
};

static bool within(size_t offset, size_t size, size_t limit) {
  return offset <= limit && size <= limit - offset;
}

static const char* read_header(struct loading* l, ElfHeader* header, const uint8_t* bytes,
                               size_t size) {
  if (size < sizeof *header) return kForm;
  memcpy(header, bytes, sizeof *header);
  if (memcmp(header->e_ident, ELFMAG, SELFMAG) || header->e_ident[EI_CLASS] != ELF_CLASS ||
      header->e_ident[EI_DATA] != ELFDATA2LSB || header->e_type != ET_DYN ||
      header->e_phentsize != sizeof(ElfSegment) || !header->e_phnum ||
      header->e_phnum > kMaxSegments)
    return kForm;
  if (header->e_machine != NACRE_MACHINE) return "its code image is for another machine";
  l->segment_count = header->e_phnum;
  if (!within(header->e_phoff, l->segment_count * sizeof(ElfSegment), size)) return kBounds;
  memcpy(l->segments, bytes + header->e_phoff, l->segment_count * sizeof(ElfSegment));
  return NULL;
}

// Segments must rise and must not share a page, so that each can have rights of its own.
static const char* place_segments(struct loading* l, const uint8_t* bytes, size_t size) {
  size_t end = 0;
  for (uint32_t i = 0; i < l->segment_count; ++i) {
    const ElfSegment* s = &l->segments[i];
    if (s->p_type != PT_LOAD) continue;
    if (s->p_filesz > s->p_memsz || !within(s->p_offset, s->p_filesz, size) ||
        s->p_memsz > kMaxImage || s->p_vaddr > kMaxImage ||
        s->p_vaddr / NACRE_PAGE * NACRE_PAGE < end)
      return kBounds;
    if (s->p_flags & PF_W && s->p_flags & PF_X)
      return "its code image has memory that is writable and executable";
    end = (s->p_vaddr + s->p_memsz + NACRE_PAGE - 1) / NACRE_PAGE * NACRE_PAGE;
  }
  if (!end) return kForm;
  l->image->base = nacre_os_pages(end);
  if (!l->image->base) return "there is no memory for its code";
  l->image->size = end;
  for (uint32_t i = 0; i < l->segment_count; ++i) {
    const ElfSegment* s = &l->segments[i];
    if (s->p_type == PT_LOAD) memcpy(l->image->base + s->p_vaddr, bytes + s->p_offset, s->p_filesz);
  }
  return NULL;
}

static const char* read_dynamic(struct loading* l) {
  const struct nacre_image* image = l->image;
  for (uint32_t i = 0; i < l->segment_count; ++i) {
    const ElfSegment* s = &l->segments[i];
    if (s->p_type != PT_DYNAMIC) continue;
    if (!within(s->p_vaddr, s->p_memsz, image->size)) return kBounds;
    for (size_t at = 0; at + sizeof(ElfDynamic) <= s->p_memsz; at += sizeof(ElfDynamic)) {
      ElfDynamic d;
      memcpy(&d, image->base + s->p_vaddr + at, sizeof d);
      size_t value = d.d_un.d_val;
      switch (d.d_tag) {
        case DT_NULL:
          at = s->p_memsz;
          break;
        case DT_SYMTAB:
          l->symbols = value;
          break;
        case DT_STRTAB:
          l->strings = value;
          break;
        case DT_STRSZ:
          l->strings_size = value;
          break;
        case DT_RELA:
          l->tables[0].offset = value;
          break;
        case DT_RELASZ:
          l->tables[0].size = value;
          break;
        case DT_REL:
          l->tables[1].offset = value;
          break;
        case DT_RELSZ:
          l->tables[1].size = value;
          break;
        case DT_JMPREL:
          l->tables[2].offset = value;
          break;
        case DT_PLTRELSZ:
          l->tables[2].size = value;
          break;
        case DT_PLTREL:
          l->tables[2].has_addend = value == DT_RELA;
          break;
        case DT_TEXTREL:
        case 36 /* DT_RELR */:
        case DT_NEEDED:
        case DT_INIT:
        case DT_INIT_ARRAY:
          return "its code image needs what nacre's loader does not do";
        default:
          break;
      }
    }
  }
  l->tables[0].has_addend = true;
  return NULL;
}

static const char* find_import(const char* name, size_t* address) {
  // Through pointers of their own types: ISO C has no common type for data and code addresses.
  static void* (*const copy)(void*, const void*, size_t) = memcpy;
  static void* (*const move)(void*, const void*, size_t) = memmove;
  static void* (*const set)(void*, int, size_t) = memset;
  static int (*const compare)(const void*, const void*, size_t) = memcmp;
  if (!strcmp(name, "memcpy"))
    memcpy(address, &copy, sizeof *address);
  else if (!strcmp(name, "memmove"))
    memcpy(address, &move, sizeof *address);
  else if (!strcmp(name, "memset"))
    memcpy(address, &set, sizeof *address);
  else if (!strcmp(name, "memcmp"))
    memcpy(address, &compare, sizeof *address);
  else
    return "its code image imports a function that the runtime does not have";
  return NULL;
}

static const char* symbol_address(const struct loading* l, size_t number, size_t* address) {
  const struct nacre_image* image = l->image;
  ElfSymbol symbol;
  if (number > image->size / sizeof symbol ||
      !within(l->symbols, (number + 1) * sizeof symbol, image->size))
    return kBounds;
  memcpy(&symbol, image->base + l->symbols + number * sizeof symbol, sizeof symbol);
  if (symbol.st_shndx != SHN_UNDEF) {
    if (symbol.st_value > image->size) return kBounds;
    *address = (size_t)(uintptr_t)image->base + symbol.st_value;
    return NULL;
  }
  // The last byte of the strings is 0, so that each of them ends.
  if (!l->strings_size || !within(l->strings, l->strings_size, image->size) ||
      image->base[l->strings + l->strings_size - 1] || symbol.st_name >= l->strings_size)
    return kBounds;
  return find_import((const char*)image->base + l->strings + symbol.st_name, address);
}

static const char* relocate(struct loading* l) {
  const struct nacre_image* image = l->image;
  for (int t = 0; t < 3; ++t) {
    size_t entry = l->tables[t].has_addend ? sizeof(ElfRela) : sizeof(ElfRel);
    if (!within(l->tables[t].offset, l->tables[t].size, image->size) || l->tables[t].size % entry)
      return kBounds;
    for (size_t at = 0; at < l->tables[t].size; at += entry) {
      ElfRela r;
      memset(&r, 0, sizeof r);
      memcpy(&r, image->base + l->tables[t].offset + at, entry);
      int type = (int)ELF_TYPE(r.r_info);
      size_t value = 0, addend = (size_t)r.r_addend;
      if (!type) continue;
      if (!within(r.r_offset, sizeof value, image->size)) return kBounds;
      if (!l->tables[t].has_addend && type != kJump && type != kGlobal)
        memcpy(&addend, image->base + r.r_offset, sizeof addend);
      if (type == kRelative) {
        value = (size_t)(uintptr_t)image->base;
      } else if (type == kAbsolute || type == kGlobal || type == kJump) {
        const char* wrong = symbol_address(l, ELF_SYMBOL(r.r_info), &value);
        if (wrong) return wrong;
      } else {
        return "its code image has a relocation of unknown kind";
      }
      value += addend;
      memcpy(image->base + r.r_offset, &value, sizeof value);
    }
  }
  return NULL;
}

// Everything read only first (headers and gaps stay so), then each segment as it asks.
static const char* protect(const struct loading* l) {
  const struct nacre_image* image = l->image;
  const char* const refused = "the system refuses to make its code executable";
  if (nacre_os_protect(image->base, image->size, NACRE_PROTECT_READ)) return refused;
  for (uint32_t i = 0; i < l->segment_count; ++i) {
    const ElfSegment* s = &l->segments[i];
    if (s->p_type != PT_LOAD || !(s->p_flags & (PF_W | PF_X)) || !s->p_memsz) continue;
    size_t first = s->p_vaddr / NACRE_PAGE * NACRE_PAGE;
    size_t last = (s->p_vaddr + s->p_memsz + NACRE_PAGE - 1) / NACRE_PAGE * NACRE_PAGE;
    if (s->p_flags & PF_X)
      __builtin___clear_cache((char*)image->base + first, (char*)image->base + last);
    if (nacre_os_protect(image->base + first, last - first,
                         s->p_flags & PF_X ? NACRE_PROTECT_EXECUTE : NACRE_PROTECT_WRITE))
      return refused;
  }
  for (uint32_t i = 0; i < l->segment_count; ++i) {
    const ElfSegment* s = &l->segments[i];
    if (s->p_type != PT_GNU_RELRO) continue;
    size_t first = s->p_vaddr / NACRE_PAGE * NACRE_PAGE;
    if (!within(s->p_vaddr, s->p_memsz, image->size)) return kBounds;
    size_t last = (s->p_vaddr + s->p_memsz) / NACRE_PAGE * NACRE_PAGE;
    if (last > first && nacre_os_protect(image->base + first, last - first, NACRE_PROTECT_READ))
      return refused;
  }
  return NULL;
}

static bool in_segment(const struct loading* l, size_t offset, size_t size, uint32_t flags) {
  for (uint32_t i = 0; i < l->segment_count; ++i) {
    const ElfSegment* s = &l->segments[i];
    if (s->p_type == PT_LOAD && (s->p_flags & (PF_W | PF_X)) == flags && offset >= s->p_vaddr &&
        within(offset - s->p_vaddr, size, s->p_memsz))
      return true;
  }
  return false;
}

static const char* find_table(const struct loading* l, size_t entry) {
  const struct nacre_kernel_table* table;
  if (entry % 4 || !in_segment(l, entry, sizeof *table, 0))
    return "its code image has no table of kernels";
  table = (const struct nacre_kernel_table*)(const void*)(l->image->base + entry);
  if (table->magic != NACRE_KERNEL_TABLE_MAGIC) return "its code image has no table of kernels";
  if (table->abi != NACRE_KERNEL_ABI)
    return "its kernels are for another version of the runtime: compile it again";
  if (table->count > kMaxImage / 4 ||
      !in_segment(l, entry, sizeof *table + 4 * (size_t)table->count, 0))
    return kBounds;
  for (uint32_t i = 0; i < table->count; ++i) {
    int64_t at = (int64_t)entry + table->offsets[i];
    if (at < 0 || !in_segment(l, (size_t)at, 1, PF_X))
      return "its code image has a kernel that is not code";
  }
  l->image->table = table;
  return NULL;
}

const char* nacre_image_load(struct nacre_image* image, const void* bytes, size_t size) {
  struct loading l;
  ElfHeader header;
  memset(&l, 0, sizeof l);
  memset(image, 0, sizeof *image);
  l.image = image;
  const char* wrong = read_header(&l, &header, bytes, size);
  if (!wrong) wrong = place_segments(&l, bytes, size);
  if (!wrong) wrong = read_dynamic(&l);
  if (!wrong) wrong = relocate(&l);
  if (!wrong) wrong = protect(&l);
  if (!wrong) wrong = find_table(&l, header.e_entry);
  if (wrong) nacre_image_unload(image);
  return wrong;
}

void nacre_image_unload(struct nacre_image* image) {
  if (image->base) nacre_os_unmap(image->base, image->size);
  memset(image, 0, sizeof *image);
}

nacre_kernel nacre_image_kernel(const struct nacre_image* image, uint32_t index) {
  nacre_kernel kernel = NULL;
  if (!image->base || index >= image->table->count) return kernel;
  uintptr_t address = (uintptr_t)image->table + (uintptr_t)(intptr_t)image->table->offsets[index];
  memcpy(&kernel, &address, sizeof kernel);
  return kernel;
}
