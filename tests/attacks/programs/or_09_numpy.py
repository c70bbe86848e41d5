# Numbers in bulk, by a library that starts threads of its own.
import os
import numpy as np

generator = np.random.default_rng(1)
a = generator.normal(size=(600, 600))
for _ in range(3):
    product = a @ a.T
assert np.allclose(np.linalg.inv(a) @ a, np.eye(600), atol=1e-6)
values, vectors = np.linalg.eigh(product)
assert np.allclose(vectors @ np.diag(values) @ vectors.T, product)
u, s, v = np.linalg.svd(a[:200, :100], full_matrices=False)
assert np.allclose(u * s @ v, a[:200, :100])
signal = np.sin(2 * np.pi * 50 * np.arange(4096) / 4096)
assert np.argmax(np.abs(np.fft.rfft(signal))) == 50
assert np.isclose(np.linalg.solve(a, a @ np.ones(600)).sum(), 600)

np.savez("/tmp/arrays.npz", a=a)
assert (np.load("/tmp/arrays.npz")["a"] == a).all()
mapped = np.memmap("/tmp/mapped", dtype="float32", mode="w+", shape=(1000, 100))
mapped[:] = 2
mapped.flush()
assert np.fromfile("/tmp/mapped", dtype="float32").sum() == 200000
print("threads", len(os.listdir("/proc/self/task")) >= min(2, os.cpu_count()), "done")
