# Has exactly a hundred megabytes for a moment.
import mmap
from attack import report

SIZE = 100_000_000
area = mmap.mmap(-1, SIZE)
for at in range(0, SIZE, mmap.PAGESIZE):
    area[at] = 1
report("touched", SIZE)
