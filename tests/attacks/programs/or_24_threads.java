// Java: threads and pools, streams, files, processes, a web server and its client, time, the collector, exceptions.
import com.sun.net.httpserver.HttpServer;
import java.net.*;
import java.net.http.*;
import java.nio.file.*;
import java.time.*;
import java.util.*;
import java.util.concurrent.*;
import java.util.concurrent.atomic.*;
import java.util.stream.*;

public class Main {
    record Point(int x, int y) {}

    static void must(boolean truth, String what) {
        if (!truth) throw new AssertionError(what);
    }

    public static void main(String[] words) throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(8);
        List<Future<Long>> parts = new ArrayList<>();
        for (int i = 0; i < 50; i++) parts.add(pool.submit(() -> LongStream.range(0, 100_000).sum()));
        long sum = 0;
        for (Future<Long> part : parts) sum += part.get();
        must(sum == 50 * 4_999_950_000L, "pool");
        AtomicInteger counter = new AtomicInteger();
        CountDownLatch latch = new CountDownLatch(20);
        for (int i = 0; i < 20; i++) new Thread(() -> { counter.incrementAndGet(); latch.countDown(); }).start();
        must(latch.await(60, TimeUnit.SECONDS) && counter.get() == 20, "threads");
        must(IntStream.range(0, 1000).parallel().map(x -> x * 2).sum() == 999_000, "parallel stream");
        must(CompletableFuture.supplyAsync(() -> 20).thenCombine(CompletableFuture.supplyAsync(() -> 22), Integer::sum).get() == 42, "futures");
        ScheduledExecutorService clock = Executors.newScheduledThreadPool(1);
        must(clock.schedule(() -> "rang", 10, TimeUnit.MILLISECONDS).get().equals("rang"), "timer");

        Path folder = Files.createTempDirectory("ordinary");
        Files.writeString(folder.resolve("file"), "a b a\n".repeat(1000));
        Map<String, Long> counts = Files.lines(folder.resolve("file")).flatMap(line -> Stream.of(line.split(" ")))
            .collect(Collectors.groupingBy(word -> word, TreeMap::new, Collectors.counting()));
        must(counts.get("a") == 2000, "files");
        Files.copy(folder.resolve("file"), folder.resolve("copy"));
        try (var channel = java.nio.channels.FileChannel.open(folder.resolve("copy"), StandardOpenOption.READ)) {
            must(channel.map(java.nio.channels.FileChannel.MapMode.READ_ONLY, 0, 6).get(0) == 'a', "mapping");
        }
        Process child = new ProcessBuilder("sort", "-r").start();
        child.getOutputStream().write("a\nb\n".getBytes());
        child.getOutputStream().close();
        must(new String(child.getInputStream().readAllBytes()).equals("b\na\n") && child.waitFor() == 0, "child");

        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", 0), 0);
        server.setExecutor(pool);
        server.createContext("/", exchange -> {
            byte[] body = exchange.getRequestURI().getPath().getBytes();
            exchange.sendResponseHeaders(200, body.length);
            exchange.getResponseBody().write(body);
            exchange.close();
        });
        server.start();
        HttpClient client = HttpClient.newHttpClient();
        URI uri = URI.create("http://127.0.0.1:" + server.getAddress().getPort() + "/path");
        for (int i = 0; i < 10; i++)
            must(client.send(HttpRequest.newBuilder(uri).build(), HttpResponse.BodyHandlers.ofString()).body().equals("/path"), "page");
        server.stop(0);

        byte[][] kept = new byte[10][];
        for (int i = 0; i < 300; i++) kept[i % 10] = new byte[1 << 20];
        System.gc();
        must(new Point(1, 2).equals(new Point(1, 2)) && Runtime.getRuntime().availableProcessors() >= 1, "values");
        must(ZonedDateTime.of(2024, 7, 1, 0, 0, 0, 0, ZoneId.of("Europe/Berlin")).getOffset().getTotalSeconds() == 7200, "zones");
        try {
            Object nothing = kept.length > 100 ? "" : null;
            nothing.toString();
            must(false, "null");
        } catch (NullPointerException expected) {
            pool.shutdown();
            clock.shutdown();
        }
        System.out.println("done");
    }
}
