// Threads of node: workers with shared memory, atomics, messages; the thread pool behind files, crypto and compression.
const { Worker, isMainThread, parentPort, workerData } = require('worker_threads');
const { promisify } = require('util');
const assert = require('assert');

if (!isMainThread) {
  const counter = new Int32Array(workerData.shared);
  for (let i = 0; i < 10000; i++) Atomics.add(counter, 0, 1);
  Atomics.notify(counter, 0);
  parentPort.on('message', n => { parentPort.postMessage(n * n); parentPort.close(); });
} else {
  (async () => {
    const shared = new SharedArrayBuffer(4);
    const answers = await Promise.all([...Array(6).keys()].map(n => new Promise((resolve, reject) => {
      const worker = new Worker(__filename, { workerData: { shared } });
      worker.on('error', reject);
      worker.on('message', resolve);
      worker.postMessage(n);
    })));
    assert.deepStrictEqual(answers, [0, 1, 4, 9, 16, 25]);
    assert.strictEqual(new Int32Array(shared)[0], 60000);

    const crypto = require('crypto'), zlib = require('zlib'), fs = require('fs');
    const keys = await Promise.all([...Array(8)].map(() => promisify(crypto.pbkdf2)('secret', 'salt', 20000, 32, 'sha256')));
    assert(keys.every(key => key.equals(keys[0])));
    const data = crypto.randomBytes(1 << 20);
    assert((await promisify(zlib.gunzip)(await promisify(zlib.gzip)(data))).equals(data));
    const folder = await fs.promises.mkdtemp('/tmp/files-');
    await Promise.all([...Array(50).keys()].map(n => fs.promises.writeFile(`${folder}/${n}`, data.subarray(0, 4096))));
    assert.strictEqual((await fs.promises.readdir(folder)).length, 50);
    const module = new WebAssembly.Module(Buffer.from('0061736d0100000001070160027f7f017f030201000707010361646400000a09010700200020016a0b', 'hex'));
    assert.strictEqual(new WebAssembly.Instance(module).exports.add(2, 3), 5);
    assert(require('os').cpus().length > 0 && require('os').totalmem() > 0);
    console.log('done');
  })();
}
