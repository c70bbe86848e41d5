// Go: routines by the thousand, channels, a web server, contexts, processes, files, the collector, signals.
package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"
)

func must(truth bool, what string) {
	if !truth {
		panic(what)
	}
}

func main() {
	var group sync.WaitGroup
	sums := make(chan int, 100)
	for n := 0; n < 5000; n++ {
		group.Add(1)
		go func(n int) {
			defer group.Done()
			must(sha256.Sum256([]byte{byte(n)}) != sha256.Sum256([]byte{byte(n + 1)}), "digest")
			sums <- n
		}(n)
	}
	go func() { group.Wait(); close(sums) }()
	total := 0
	for sum := range sums {
		total += sum
	}
	must(total == 12497500, "sum of routines")

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(err == nil, "listen")
	go http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		json.NewEncoder(w).Encode(map[string]any{"path": r.URL.Path, "size": len(body)})
	}))
	for i := 0; i < 20; i++ {
		answer, err := http.Post("http://"+listener.Addr().String()+"/p", "text/plain", bytes.NewReader(make([]byte, 100000)))
		must(err == nil, "post")
		var said struct{ Path string; Size int }
		must(json.NewDecoder(answer.Body).Decode(&said) == nil && said.Path == "/p" && said.Size == 100000, "answer")
		answer.Body.Close()
	}

	limited, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	err = exec.CommandContext(limited, "sleep", "60").Run()
	must(err != nil && limited.Err() != nil, "time-out of a child")
	var failed *exec.ExitError
	must(errors.As(exec.Command("sh", "-c", "exit 3").Run(), &failed) && failed.ExitCode() == 3, "exit code")
	sort := exec.Command("sort", "-r")
	sort.Stdin = bytes.NewBufferString("a\nb\n")
	out, err := sort.Output()
	must(err == nil && string(out) == "b\na\n", "pipe")

	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGUSR1)
	syscall.Kill(os.Getpid(), syscall.SIGUSR1)
	must(<-signals == syscall.SIGUSR1, "signal")

	must(os.MkdirAll("/tmp/deep/er", 0o755) == nil && os.WriteFile("/tmp/deep/er/file", make([]byte, 1<<20), 0o644) == nil, "write")
	source, _ := os.Open("/tmp/deep/er/file")
	target, _ := os.Create("/tmp/copy")
	copied, err := io.Copy(target, source)
	must(err == nil && copied == 1<<20, "copy by the kernel")
	found := 0
	filepath.WalkDir("/tmp/deep", func(string, os.DirEntry, error) error { found++; return nil })
	must(found == 3, "walk")
	// Where the kernel would move pages between pipe and socket, it has to fall back.
	reader, writer := io.Pipe()
	go func() { io.Copy(writer, bytes.NewReader(make([]byte, 1<<20))); writer.Close() }()
	read, err := io.Copy(io.Discard, reader)
	must(err == nil && read == 1<<20, "pipe inside")
	forward()
	var kept [][]byte
	for i := 0; i < 200; i++ {
		kept = append(kept, make([]byte, 1<<20))
		if len(kept) > 20 {
			kept = kept[1:]
		}
	}
	runtime.GC()
	must(runtime.NumCPU() >= 1 && len(kept) == 20, "memory")
	defer func() { must(recover() != nil, "recover"); fmt.Println("done") }()
	var nobody map[string]int
	nobody["x"] = 1
}

// From one connection to another, which the library does by splice where it may.
func forward() {
	listener, _ := net.Listen("tcp", "127.0.0.1:0")
	back, _ := net.Listen("tcp", "127.0.0.1:0")
	go func() {
		in, _ := listener.Accept()
		out, _ := net.Dial("tcp", back.Addr().String())
		io.Copy(out, in)
		out.Close()
	}()
	go func() {
		line, _ := net.Dial("tcp", listener.Addr().String())
		line.Write(make([]byte, 1<<20))
		line.Close()
	}()
	end, _ := back.Accept()
	got, err := io.Copy(io.Discard, end)
	must(err == nil && got == 1<<20, "forwarded")
}
