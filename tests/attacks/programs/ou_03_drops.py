# A byte every millisecond.
import os
import time

end = time.monotonic() + 2
count = 0
while time.monotonic() < end:
    os.write(1, b"%d" % (count % 10))
    count += 1
    time.sleep(0.001)
os.write(2, b"%d" % count)
