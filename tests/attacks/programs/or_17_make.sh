# Building a project: make with several jobs, generated headers, a static and a shared library, install, out of date files.
set -euo pipefail
is() { [ "$(cat)" = "$1" ]; }
has() { grep -- "$1" > /dev/null; }
cd /tmp && mkdir -p project/src && cd project
for n in $(seq 12); do printf '#include "all.h"\nint f%d(int x) { return x + %d; }\n' "$n" "$n" > "src/f$n.c"; done
cat > src/main.c << 'C'
#include <stdio.h>
#include "all.h"
int main(void) { int x = 0; ALL(x) printf("%d\n", x); }
C
cat > Makefile << 'MAKE'
OBJECTS := $(patsubst src/%.c,build/%.o,$(filter-out src/main.c,$(wildcard src/*.c)))
CFLAGS := -O1 -fPIC -Ibuild -MMD -g -Wall -Werror
all: build/static build/shared
build/all.h: $(wildcard src/f*.c) | build
	{ for f in $(notdir $(^:.c=)); do echo "int $$f(int);"; done; printf '#define ALL(x)'; for f in $(notdir $(^:.c=)); do printf ' x = %s(x);' $$f; done; echo; } > $@
build/%.o: src/%.c build/all.h ; $(CC) $(CFLAGS) -c -o $@ $<
build/liball.a: $(OBJECTS) ; $(AR) rcs $@ $^
build/liball.so: $(OBJECTS) ; $(CC) -shared -o $@ $^
build/static: build/main.o build/liball.a ; $(CC) -o $@ $^
build/shared: build/main.o build/liball.so ; $(CC) -o $@ $< -Lbuild -lall -Wl,-rpath,'$$ORIGIN'
build: ; mkdir -p $@
install: all ; install -D -m 755 build/shared $(DESTDIR)/bin/shared; install -D -m 644 build/liball.so $(DESTDIR)/lib/liball.so
-include $(wildcard build/*.d)
.PHONY: all install
MAKE
make -s -j4
[ "$(build/static)" = 78 ] && [ "$(build/shared)" = 78 ]
make -q
sed -i 's/+ 12/+ 112/' src/f12.c && make -s -j4 && [ "$(build/static)" = 178 ]
make -s install DESTDIR=/tmp/root && [ "$(LD_LIBRARY_PATH=/tmp/root/lib /tmp/root/bin/shared)" = 178 ]
if echo 'int main(void) { return undeclared; }' | gcc -x c - -o /dev/null 2> /dev/null; then exit 1; fi
nm -D --defined-only build/liball.so | grep -c ' T f' | is 12
objdump -d build/static | has '<main>:' && strip build/static && [ "$(build/static)" = 178 ] && ldd build/shared | has liball
gcc -E src/main.c -Ibuild > /dev/null && gcc -S -o - src/f1.c -Ibuild | as -o /tmp/f1.o -
echo done
