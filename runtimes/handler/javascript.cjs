// Runs a JavaScript program for a value: `node javascript.cjs main.js ARGS…`, with `call.json` beside this file.
//
// The program is the main module and arguments are its own, as if it had been started itself. What came of it is left in
// `value.json` beside this file: `{"value": …}`, or `{"failure": …}` with the reason in words. Nothing it throws is
// caught, so that Node.js shows it as always. Exit codes: 1 it could not be loaded, 2 its handler threw, 3 its value is
// no JSON.
'use strict'

const { readFileSync, unlinkSync, writeFileSync } = require('fs')
const Module = require('module')
const { basename, dirname, join, resolve } = require('path')
const { pathToFileURL } = require('url')
const vm = require('vm')

const { stringify } = JSON
const { exit } = process
const told = join(__dirname, 'call.json')
const place = join(__dirname, 'value.json')
const call = JSON.parse(readFileSync(told, 'utf8'))
// So that a large event does not take up storage twice
unlinkSync(told)

process.argv.splice(1, 1)
const main = (process.argv[1] = resolve(process.argv[1]))
delete require.cache[__filename]
// What was compiled lies beside us, and has nothing left in it that was not exported
const isBundle = dirname(main) === dirname(__dirname)

const of = call.mode === 'handler' ? 'the value of the handler' : 'the value'
const raised = { load: 'the program could not be loaded:', handle: 'the handler threw', evaluate: 'the program threw:' }
let stage = call.mode === 'handler' ? 'load' : 'evaluate'
let over = false
let code = 0

function leave(text) {
  over = true
  writeFileSync(place, text)
}

function fail(status, why) {
  leave(stringify({ failure: why.slice(0, 2000) }))
  exit(status)
}

function leaveValue(value) {
  let text
  try {
    text = value === undefined ? 'null' : stringify(value)
  } catch (error) {
    fail(3, `${of} is no JSON: ${String(error.message).split('\n')[0]}`)
  }
  if (text === undefined) fail(3, `${of} is no JSON: it is a ${typeof value}`)
  const length = Buffer.byteLength(text)
  if (length > call.most_value_bytes) {
    fail(3, `${of} has ${length} bytes as JSON; at most ${call.most_value_bytes} are allowed`)
  }
  code = 0
  leave(`{"value":${text}}`)
}

// A promise is waited for. Nobody catches its rejection, which ends the process as that of a script would
function settle(value) {
  if (value !== null && ['object', 'function'].includes(typeof value) && typeof value.then === 'function') {
    Promise.resolve(value).then(leaveValue)
  } else {
    leaveValue(value)
  }
}

// Called before Node.js tells of what nobody has caught
process.on('uncaughtExceptionMonitor', error => {
  if (over) return
  let words = String(error)
  try {
    if (error instanceof Error) {
      words = `${error.name}: ${error.message}`
      const lines = error.stack.split('\n')
      const end = lines.findIndex(line => /^\s+at /.test(line) && line.includes(__filename))
      if (end >= 0) {
        lines.length = end
        while (/^\s+at .*\bnode:/.test(lines.at(-1))) lines.pop()
        error.stack = lines.join('\n')
      }
    }
  } catch {
    // It is the program's, and may be anything
  }
  if (stage === 'handle') code = 2
  leave(stringify({ failure: `${raised[stage]} ${words}`.slice(0, 2000) }))
})

// Node.js has settled on another one for what nobody has caught
process.on('exit', () => {
  if (code) process.exitCode = code
})

process.on('beforeExit', () => {
  if (!over) fail(stage === 'handle' ? 2 : 1, `it ended before ${of} was known: a promise was never settled`)
})

function handle(handler, expected) {
  if (typeof handler !== 'function') {
    const what = handler === undefined ? 'defines no function `handler`' : 'has a `handler` that is no function'
    fail(1, `${isBundle ? 'the program' : basename(main)} ${what}; ${expected} is expected`)
  }
  const remaining = () => Math.max(0, call.deadline_ms - Date.now())
  const context = {
    ...call.context,
    aws_request_id: call.context.request_id,
    get_remaining_time_in_millis: remaining,
    getRemainingTimeInMillis: remaining,
  }
  stage = 'handle'
  settle(handler.length === 1 ? handler(call.event) : handler(call.event, context))
}

const exported = exports => exports?.handler ?? exports?.default?.handler ?? exports?.default ?? undefined

// Whether a file can only be loaded as an ES module
function isModule() {
  if (main.endsWith('.mjs')) return true
  if (main.endsWith('.cjs')) return false
  try {
    compile(readFileSync(main, 'utf8'))
    return false
  } catch (error) {
    return /\b(import|export|await)\b/.test(error.message)
  }
}

// Whether this is a CommonJS module: throws if it is not
function compile(source) {
  vm.compileFunction(source.replace(/^#!.*/, ''), ['exports', 'require', 'module', '__filename', '__dirname'])
}

function load() {
  if (isModule()) {
    const expected = '`export function handler(event)` or `export function handler(event, context)`'
    import(pathToFileURL(main)).then(exports => handle(exported(exports), expected))
    return
  }
  // A function that is declared but not exported is seen only from within its file
  const seen = Symbol()
  const key = Symbol.for('handler')
  const { _compile } = Module.prototype
  let declared
  Module.prototype._compile = function (content, filename, ...rest) {
    if (filename !== main) return Reflect.apply(_compile, this, [content, filename, ...rest])
    Module.prototype._compile = _compile
    globalThis[key] = handler => (declared = handler ?? seen)
    const look = `\n;globalThis[Symbol.for("handler")]?.(typeof handler === "undefined" ? undefined : handler)`
    let whole = content + look
    try {
      compile(whole)
    } catch {
      // It is told of as it is
      whole = content
    }
    return Reflect.apply(_compile, this, [whole, filename, ...rest])
  }
  const exports = Module._load(main, null, true)
  delete globalThis[key]
  const own = declared === seen ? undefined : declared
  const handler = own ?? (typeof exports === 'function' ? exports : exported(exports))
  const form = isBundle ? 'export function' : 'function'
  handle(handler, `\`${form} handler(event)\` or \`${form} handler(event, context)\``)
}

function evaluate() {
  const source = readFileSync(main, 'utf8')
  const module = new Module(main, null)
  Object.assign(module, { filename: main, paths: Module._nodeModulePaths(dirname(main)) })
  const globals = { require: Module.createRequire(main), module, exports: module.exports, __filename: main, __dirname: dirname(main) }
  for (const [name, value] of Object.entries(globals)) {
    Object.defineProperty(globalThis, name, { value, configurable: true, writable: true })
  }
  // That `import()` works here is new to some versions, which the program need not hear of
  const { emitWarning } = process
  process.emitWarning = (warning, ...rest) => {
    if (!String(warning).includes('USE_MAIN_CONTEXT_DEFAULT_LOADER')) Reflect.apply(emitWarning, process, [warning, ...rest])
  }
  const options = { filename: main, importModuleDynamically: vm.constants?.USE_MAIN_CONTEXT_DEFAULT_LOADER }
  let script
  // What begins with a brace is an object if it can be one
  if (/^\s*\{/.test(source) && !/;\s*$/.test(source)) {
    try {
      script = new vm.Script(`(${source}\n)`, options)
    } catch {
      // It is a block
    }
  }
  script ??= new vm.Script(source, options)
  settle(script.runInThisContext())
}

if (call.mode === 'handler') load()
else evaluate()
