// Parks Node.js before it loads the main file: `env -C / node -r node.cjs /workspace/main.js`.
//
// Says that it is ready, waits for the arguments and variables of the program, takes its own traces away
// and returns. Node then loads the main file as it always does.
//
// Node looks for package.json and remembers that there is none: for `-r` in the working directory, for a file that
// ends in `.js` next to it. Hence the start in another directory than the program's, and the name of this file.
'use strict'

const { Socket } = require('net')
const { dirname } = require('path')
const { isMainThread } = require('worker_threads')
const { readSync, writeSync } = require('fs')

function take(length) {
  const bytes = Buffer.alloc(length)
  for (let have = 0; have < length;) {
    const more = readSync(0, bytes, have, length - have)
    if (more === 0) process.exit(0)
    have += more
  }
  return bytes.toString()
}

// What the first program would wait for: modules that many use, and a line of output as far as a stream goes without
// a descriptor. The stream of descriptor 1 itself is left alone, because opening it changes the descriptor. What it puts
// off until the program is over is done now.
function warmUp() {
  for (const name of ['assert', 'child_process', 'crypto', 'fs/promises', 'os', 'readline', 'tty']) require(name)
  const zero = () => 0
  const handle = { getAsyncId: zero, getProviderType: zero, writeUtf8String: zero, writeLatin1String: zero }
  new console.Console(new Socket({ handle, readable: false, writable: true })).log('%s', 'warm', { up: [1] })
  process._tickCallback()
}

// When its program has ended, Node takes its heap and its threads down piece by piece, which takes longer than most
// programs and which nobody sees. So every end is one as soon as the program has heard of it, and at once: what the library
// does that left the keeper. It does nothing where the program has loaded libraries, which may have something to do at the
// end. Of an exception that nobody caught Node tells only afterwards, so such an end is left alone.
function endQuickly() {
  const library = { exports: {} }
  process.dlopen(library, `${__dirname}/libsandbox_zygote.so`)
  const { emit, reallyExit } = process
  const { exitAtOnce } = library.exports
  let uncaught = false
  const value = {
    emit(name, ...rest) {
      const heard = Reflect.apply(emit, this, [name, ...rest])
      if (name === 'uncaughtExceptionMonitor') uncaught = true
      else if (name === 'uncaughtException' && heard) uncaught = false
      else if (name === 'exit' && process._exiting && !uncaught) {
        const code = process.exitCode || 0
        exitAtOnce(code)
        Reflect.apply(reallyExit, process, [code])
      }
      return heard
    },
  }.emit
  Object.defineProperty(process, 'emit', { value, configurable: true, writable: true })
}

// Threads inherit `-r` whatever `process.execArgv` says: in them only the traces have to go
if (isMainThread) {
  // Without a keeper nobody would know when it ends.
  if ('SANDBOXD_KEEPER' in process.env) process.exit(1)
  process.chdir(dirname(process.argv[1]))
  warmUp()
  endQuickly()
  writeSync(1, Uint8Array.of(6))
  const [count, ...words] = take(parseInt(take(8), 16)).split('\0').slice(0, -1)
  process.argv.push(...words.slice(1, count))
  for (const variable of words.slice(count)) {
    const end = variable.indexOf('=')
    process.env[variable.slice(0, end)] = variable.slice(end + 1)
  }
}

process.execArgv.splice(process.execArgv.indexOf('-r'), 2)
delete require.cache[__filename]
const paths = module.constructor._pathCache
for (const key of Object.keys(paths)) if (paths[key] === __filename) delete paths[key]
