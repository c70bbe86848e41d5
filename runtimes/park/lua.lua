-- Parks Lua before it opens the main file: `lua -e 'dofile("lua.lua")' main.lua`.
--
-- Says that it is ready, waits for the arguments of the program and takes its traces away. Lua cannot change
-- its environment, so a program that is given variables has to be started without this.

-- Once unbuffered, io.stdin would stay so and read lines byte by byte. A second way to the same pipe spares it that,
-- where the pipe may be opened.
local input = io.open("/proc/self/fd/0", "rb") or io.stdin
input:setvbuf("no")

local function take(length)
  local bytes = input:read(length)
  if not bytes or #bytes < length then os.exit(0) end
  return bytes
end

io.stdout:write("\6")
io.stdout:flush()
local words = {}
for word in take(tonumber(take(8), 16)):gmatch("(%Z*)%z") do words[#words + 1] = word end
if input ~= io.stdin then input:close() end

-- Before the main file are the words "lua", "-e" and what follows it
local arguments = { [-1] = arg[-3], [0] = arg[0] }
local count = tonumber(words[1])
assert(#words == 1 + count, "Lua cannot set variables")
for i = 1, count - 1 do arguments[i] = words[i + 2] end
arg = arguments
