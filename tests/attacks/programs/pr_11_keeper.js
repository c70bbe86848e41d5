// Looks for the process that keeps the memory of Node.js, which is there only for the first milliseconds, and so before
// anything else is done. Its number is no secret: the kernel names the children of a process to itself.
const fs = require('fs')

const answers = []

const isThere = fs.readFileSync(`/proc/self/task/${process.pid}/children`, 'latin1').split(' ').includes('3')

function attempt(name, work) {
  // Number 3 is a thread of this program where nobody keeps its memory, or was until just now.
  if (!isThere) return answers.push([name, 'nobody'])
  try {
    work()
    answers.push([name, 'ok'])
  } catch (error) {
    answers.push([name, error.code])
  }
}

for (const signal of [0, 'SIGSTOP', 'SIGUSR1', 'SIGKILL']) attempt(`signal ${signal}`, () => process.kill(3, signal))
for (const name of ['', '/mem', '/maps', '/fd', '/root', '/stat', '/environ']) {
  attempt(`look at ${name || 'all'}`, () => fs.statSync(`/proc/3${name}`))
}
answers.push(['is listed', fs.readdirSync('/proc').includes('3') ? 'yes' : 'no'])
for (const [name, answer] of answers) console.log(`attempt\t${name}\t${answer}`)
