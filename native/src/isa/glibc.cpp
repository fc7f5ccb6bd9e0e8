// The logarithm under its first name: `log` of glibc 2.29 differs in errno alone, but would shut out systems of 2.28.
extern "C" {
double first_log(double x);
__asm__(".symver first_log, log@GLIBC_2.2.5");
// the linker sends calls of log here (-Wl,--wrap=log)
__attribute__((visibility("hidden"))) double __wrap_log(double x) { return first_log(x); }
}
