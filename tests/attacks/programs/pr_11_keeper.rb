# Looks for the process that keeps the memory of Ruby, which is there only for the first milliseconds.
there = File.read("/proc/self/task/#{Process.pid}/children").split.include?('3')

answers = []
attempt = lambda do |name, &work|
  answers << [name, there ? (work.call; 'ok') : 'nobody']
rescue SystemCallError => error
  answers << [name, error.class.name.split('::').last]
end

[0, 'STOP', 'USR1', 'KILL'].each { |signal| attempt.call("signal #{signal}") { Process.kill(signal, 3) } }
['', '/mem', '/maps', '/fd', '/root', '/stat', '/environ'].each do |name|
  attempt.call("look at #{name.empty? ? 'all' : name}") { File.stat("/proc/3#{name}") }
end
answers << ['is listed', Dir.children('/proc').include?('3') ? 'yes' : 'no']
answers.each { |name, answer| puts "attempt\t#{name}\t#{answer}" }
