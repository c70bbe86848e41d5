# Ruby: blocks, threads, queues, fibers, ractors, children, sockets, files, signals, the library.
require "json"; require "digest"; require "open3"; require "socket"; require "tempfile"; require "timeout"; require "time"
require "fileutils"; require "set"; require "zlib"; require "yaml"; require "securerandom"; require "bigdecimal"

def must(truth, what) = truth || raise(what)

must (1..100).sum { _1 ** 2 } == 338350, "sum"
must JSON.parse(JSON.dump({ "a" => [1, nil] })) == { "a" => [1, nil] } && YAML.load("a: [1, 2]")["a"] == [1, 2], "data"
must Digest::SHA256.hexdigest("abc").start_with?("ba7816bf") && SecureRandom.hex.size == 32, "digest"
must Zlib.inflate(Zlib.deflate("x" * 100_000)) == "x" * 100_000 && BigDecimal("0.1") * 3 == BigDecimal("0.3"), "zlib"
queue, results, lock = Queue.new, [], Mutex.new
workers = 8.times.map { Thread.new { while (n = queue.pop) do lock.synchronize { results << n * n } end } }
200.times { queue << _1 }
8.times { queue << nil }
workers.each(&:join)
must results.sum == 2_646_700, "threads"
fiber = Fiber.new { 3.times { Fiber.yield _1 }; :end }
must 4.times.map { fiber.resume } == [0, 1, 2, :end] && (1..).lazy.select(&:even?).first(3) == [2, 4, 6], "fibers"

pids = 5.times.map { |n| fork { exit! n } }
must pids.sum { Process.wait2(_1)[1].exitstatus } == 10, "children"
out, status = Open3.capture2("sort", "-n", stdin_data: "3\n1\n2\n")
must out == "1\n2\n3\n" && status.success? && `echo $((6 * 7))` == "42\n", "pipes"
begin
  Timeout.timeout(0.05) { sleep 60 }
  must false, "time-out"
rescue Timeout::Error
end
rang = Queue.new
trap("USR1") { Thread.new { rang << 1 } }
Process.kill("USR1", Process.pid)
must rang.pop == 1, "signal"

server = TCPServer.new("127.0.0.1", 0)
Thread.new { 10.times { server.accept.tap { |line| line.puts line.gets.upcase; line.close } } }
10.times { TCPSocket.open("127.0.0.1", server.addr[1]) { |line| line.puts "hello"; must line.read == "HELLO\n", "sockets" } }
UNIXServer.open("/tmp/ruby.sock") { must File.socket?("/tmp/ruby.sock"), "path socket" }
FileUtils.mkdir_p("/tmp/deep/er")
File.write("/tmp/deep/er/file", "a b a\n" * 100)
FileUtils.cp_r("/tmp/deep", "/tmp/copy")
must Dir.glob("/tmp/copy/**/*").size == 2 && File.foreach("/tmp/copy/er/file").count == 100, "files"
must File.open("/tmp/copy/er/file").flock(File::LOCK_EX) == 0 && Tempfile.create { _1.write("x") } == 1, "locks"
must Time.parse("2024-01-02 03:04:05 UTC").to_i == 1_704_164_645, "time"
GC.start
puts "done"
