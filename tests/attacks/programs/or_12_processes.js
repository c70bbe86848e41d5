// Node and what is around it: children, forks with messages, a cluster, a web server, streams, watching files.
const { spawn, execFileSync, fork, spawnSync } = require('child_process');
const { once } = require('events');
const assert = require('assert'), cluster = require('cluster'), fs = require('fs'), http = require('http'), net = require('net');
const { pipeline } = require('stream/promises');

async function fetchText(port) {
  const [answer] = await once(http.get({ port, host: '127.0.0.1' }), 'response');
  let text = '';
  for await (const part of answer) text += part;
  return text;
}

async function main() {
  assert.strictEqual(execFileSync('sh', ['-c', 'echo $((6*7))']).toString(), '42\n');
  assert.strictEqual(spawnSync('cat', { input: 'x'.repeat(1 << 20) }).stdout.length, 1 << 20);
  const sleeper = spawn('sleep', ['60'], { detached: true });
  sleeper.kill();
  assert.strictEqual((await once(sleeper, 'exit'))[1], 'SIGTERM');

  const child = fork(__filename, ['child']);
  child.send({ n: 20 });
  assert.deepStrictEqual((await once(child, 'message'))[0], { n: 40 });
  child.disconnect();
  await once(child, 'exit');

  const server = http.createServer((_, answer) => answer.end('page')).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const pages = await Promise.all([...Array(20)].map(() => fetchText(server.address().port)));
  assert(pages.every(page => page === 'page'));
  server.close();
  const path = net.createServer(line => line.end('by path')).listen('/tmp/node.sock');
  await once(path, 'listening');
  const [heard] = await once(net.connect('/tmp/node.sock'), 'data');
  assert.strictEqual(heard.toString(), 'by path');
  path.close();

  fs.writeFileSync('/tmp/in', 'a line\n'.repeat(50000));
  await pipeline(fs.createReadStream('/tmp/in'), require('zlib').createGzip(), fs.createWriteStream('/tmp/out.gz'));
  assert(fs.statSync('/tmp/out.gz').size < 5000);
  const watcher = fs.watch('/tmp');
  setTimeout(() => fs.writeFileSync('/tmp/watched', ''), 20);
  assert((await once(watcher, 'change'))[1]);
  watcher.close();

  cluster.setupPrimary({ exec: __filename, args: ['worker'] });
  const workers = [cluster.fork(), cluster.fork()];
  await once(cluster, 'listening');
  assert.match(await fetchText(18080), /worker/);
  workers.forEach(worker => worker.kill());
  console.log('done');
}

if (process.argv[2] === 'child') {
  process.on('message', message => process.send({ n: message.n * 2 }));
} else if (process.argv[2] === 'worker') {
  http.createServer((_, answer) => answer.end(`worker ${process.pid}`)).listen(18080, '127.0.0.1');
} else {
  main();
}
