# Perl: text, sorting, files, children and pipes, sockets, signals, core modules.
use strict; use warnings;
use Digest::SHA qw(sha256_hex); use File::Find; use File::Temp qw(tempdir); use IO::Socket::INET; use IO::Select;
use IPC::Open3; use JSON::PP; use List::Util qw(sum max first); use POSIX qw(floor strftime :sys_wait_h); use Socket;
use Storable qw(dclone); use Time::HiRes qw(sleep time); use Encode; use Data::Dumper; use MIME::Base64;

my %count; $count{lc $_}++ for "The cat and the dog" =~ /\w+/g;
die "words" unless $count{the} == 2 and sum(values %count) == 5;
die "sort" unless join(",", sort { $a <=> $b } 10, 9, 2) eq "2,9,10";
die "json" unless decode_json(encode_json({ a => [1, 2] }))->{a}[1] == 2;
die "hash" unless sha256_hex("abc") =~ /^ba7816bf/ and decode_base64(encode_base64("x" x 100)) eq "x" x 100;
die "unicode" unless length(decode("UTF-8", "h\xc3\xa9")) == 2;
my $dir = tempdir(CLEANUP => 1);
for my $n (1 .. 50) { open my $f, ">", "$dir/$n" or die $!; print $f "line $n\n" x $n; close $f; }
my $size = 0; find(sub { $size += -s if -f }, $dir);
die "files" unless $size > 9000 and (stat "$dir/1")[7] == 7;

my @kids = map { my $pid = fork; unless ($pid) { exit $_ } $pid } 1 .. 5;
die "children" unless sum(map { waitpid $_, 0; $? >> 8 } @kids) == 15;
my $pid = open3(my $in, my $out, undef, "sort", "-n"); print $in "3\n1\n2\n"; close $in;
die "pipe" unless join("", <$out>) eq "1\n2\n3\n"; waitpid $pid, 0;
die "backticks" unless `echo \$((6 * 7))` == 42 and system("sh", "-c", "exit 3") >> 8 == 3;

my $server = IO::Socket::INET->new(Listen => 5, LocalAddr => "127.0.0.1", Proto => "tcp") or die "listen $!";
unless (fork) { my $c = IO::Socket::INET->new(PeerAddr => "127.0.0.1", PeerPort => $server->sockport) or exit 1; print $c "hello\n"; exit 0 }
my $line = $server->accept; die "socket" unless <$line> eq "hello\n"; wait;
socketpair(my $a, my $b, AF_UNIX, SOCK_STREAM, PF_UNSPEC) or die $!;
syswrite $a, "pair"; die "pair" unless IO::Select->new($b)->can_read(60) and sysread($b, my $text, 9) == 4;
my $rang = 0; local $SIG{ALRM} = sub { $rang++ }; Time::HiRes::ualarm(5000); sleep 0.1; die "alarm" unless $rang;
die "eval" unless !eval { die { code => 7 } } and $@->{code} == 7;
die "time" unless strftime("%Y-%m-%d", gmtime 0) eq "1970-01-01";
print "done\n";
