// C#: tasks, threads, queries, text, files, processes, sockets, exceptions.
using System;
using System.Collections.Concurrent;
using System.Collections.Generic;
using System.Diagnostics;
using System.IO;
using System.IO.Compression;
using System.Linq;
using System.Net;
using System.Net.Sockets;
using System.Security.Cryptography;
using System.Text;
using System.Text.RegularExpressions;
using System.Threading;
using System.Threading.Tasks;

class Program {
    static void Must(bool truth, string what) { if (!truth) throw new Exception(what); }

    static async Task<int> Slowly(int n) { await Task.Delay(5); return n * n; }

    static void Main() {
        var sums = Enumerable.Range(0, 20).Select(n => Task.Run(() => Enumerable.Range(0, 10000).Sum(x => (long)x))).ToArray();
        Task.WaitAll(sums);
        Must(sums.Sum(s => s.Result) == 20 * 49995000L, "tasks");
        Must(Task.WhenAll(Enumerable.Range(0, 50).Select(Slowly)).Result.Sum() == 40425, "async");
        var seen = new ConcurrentDictionary<int, int>();
        var threads = Enumerable.Range(0, 8).Select(n => new Thread(() => { for (int i = 0; i < 100; i++) seen[n * 100 + i] = i; })).ToList();
        threads.ForEach(t => t.Start());
        threads.ForEach(t => t.Join());
        Must(seen.Count == 800, "threads");
        Must("the cat and the dog".Split(' ').GroupBy(w => w).OrderByDescending(g => g.Count()).First().Key == "the", "queries");
        Must(Regex.Matches("a1b22", @"\d+").Count == 2, "expressions");
        using (var sha = SHA256.Create()) Must(sha.ComputeHash(Encoding.ASCII.GetBytes("abc"))[0] == 0xba, "digest");

        var folder = Directory.CreateDirectory("/tmp/ordinary").FullName;
        File.WriteAllLines(folder + "/lines", Enumerable.Range(0, 1000).Select(n => "line " + n));
        Must(File.ReadLines(folder + "/lines").Count() == 1000, "files");
        using (var packed = new GZipStream(File.Create(folder + "/packed"), CompressionMode.Compress)) packed.Write(new byte[100000], 0, 100000);
        Must(new FileInfo(folder + "/packed").Length < 5000, "compression");

        var start = new ProcessStartInfo("sort", "-n") { RedirectStandardInput = true, RedirectStandardOutput = true, UseShellExecute = false };
        using (var child = Process.Start(start)) {
            child.StandardInput.Write("3\n1\n2\n");
            child.StandardInput.Close();
            Must(child.StandardOutput.ReadToEnd() == "1\n2\n3\n", "process");
            child.WaitForExit();
        }
        var listener = new TcpListener(IPAddress.Loopback, 0);
        listener.Start();
        var server = Task.Run(() => { using (var line = listener.AcceptTcpClient()) line.GetStream().Write(new byte[] { 42 }, 0, 1); });
        using (var client = new TcpClient("127.0.0.1", ((IPEndPoint)listener.LocalEndpoint).Port)) Must(client.GetStream().ReadByte() == 42, "sockets");
        server.Wait();
        try { object nothing = null; nothing.ToString(); Must(false, "null"); } catch (NullReferenceException) { }
        for (int i = 0; i < 200; i++) GC.KeepAlive(new byte[1 << 20]);
        GC.Collect();
        Console.WriteLine("done");
    }
}
