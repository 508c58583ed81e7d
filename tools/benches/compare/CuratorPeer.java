import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;

import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.LeaderSelector;
import org.apache.curator.framework.recipes.leader.LeaderSelectorListenerAdapter;
import org.apache.curator.framework.recipes.locks.InterProcessLock;
import org.apache.curator.framework.recipes.locks.InterProcessMultiLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.retry.ExponentialBackoffRetry;

/**
 * Apache Curator's locks and elections under load. A question a line on standard input, numbers (or what went wrong) a line on standard
 * output; times in nanoseconds:
 *
 * run SERVERS PATH THREADS LOCKS SESSIONS HOLD_MICROSECONDS TURN_MILLISECONDS RECIPE -> cycles, elapsed,
 *     median hand-over; of readers, the median wait of the writer
 * each ... -> the same with a lock object for each thread, where otherwise those of one session and path share one
 * first SERVERS PATH COUNT RECIPE -> mean acquisition of PATH/0 and so on, mean release
 * try SERVERS PATH COUNT -> how often it was acquired
 *
 * Sessions, and the locks of each, are kept from question to question. The end of the input ends the process.
 */
public class CuratorPeer {
    private static final BlockingQueue<String> questions = new LinkedBlockingQueue<>();
    private static final ExecutorService threads = Executors.newCachedThreadPool(work -> {
        Thread thread = new Thread(work);
        thread.setDaemon(true);
        return thread;
    });
    private static final Map<String, CuratorFramework> sessions = new ConcurrentHashMap<>();
    private static final Map<String, Cycle> cycles = new ConcurrentHashMap<>();
    private static final String END = "";

    public static void main(String[] arguments) throws Exception {
        Thread reader = new Thread(CuratorPeer::read);
        reader.setDaemon(true);
        reader.start();
        for (String question = questions.take(); !question.equals(END); question = questions.take()) {
            String answer;
            try {
                answer = answer(question.split(" "));
            } catch (Exception exception) {
                answer = String.valueOf(exception).replace('\n', ' ');
            }
            System.out.println(answer);
            System.out.flush();
        }
        sessions.values().forEach(CuratorFramework::close);
        System.exit(0);
    }

    /** Apart from the work: whoever waits for a lock must not keep the process alive when its owner is gone. */
    private static void read() {
        try (BufferedReader input = new BufferedReader(new InputStreamReader(System.in))) {
            for (String line = input.readLine(); line != null; line = input.readLine()) {
                questions.put(line);
            }
            questions.put(END);
            Thread.sleep(5_000);
        } catch (Exception exception) {
            // As at the end.
        }
        Runtime.getRuntime().halt(0);
    }

    private static String answer(String[] words) throws Exception {
        switch (words[0]) {
            case "run":
                return run(words, false);
            case "each":
                return run(words, true);
            case "first":
                return first(words[1], words[2], Integer.parseInt(words[3]), words[4]);
            case "try":
                InterProcessMutex mutex = new InterProcessMutex(session(words[1], 0), words[2]);
                int acquired = 0;
                for (int i = 0; i < Integer.parseInt(words[3]); i++) {
                    if (mutex.acquire(0, TimeUnit.MILLISECONDS)) {
                        acquired++;
                        mutex.release();
                    }
                }
                return String.valueOf(acquired);
            default:
                return "unknown: " + words[0];
        }
    }

    private static String run(String[] words, boolean each) throws Exception {
        int count = Integer.parseInt(words[3]);
        int paths = Integer.parseInt(words[4]);
        int clients = Integer.parseInt(words[5]);
        long hold = TimeUnit.MICROSECONDS.toNanos(Long.parseLong(words[6]));
        long turn = TimeUnit.MILLISECONDS.toNanos(Long.parseLong(words[7]));
        List<Callable<List<long[]>>> works = new ArrayList<>();
        long[] began = new long[1];
        for (int i = 0; i < count; i++) {
            String path = words[2] + "/" + i % paths;
            // A lease or a count of cycles is one thread's.
            boolean own = each || !words[8].equals("mutex");
            Cycle cycle = cycle(words[8], words[1], i % clients, path, own ? "" + i : "");
            works.add(() -> cycles(cycle, hold, began[0], turn));
        }
        List<Future<List<long[]>>> running = new ArrayList<>();
        began[0] = System.nanoTime();
        for (Callable<List<long[]>> work : works) {
            running.add(threads.submit(work));
        }
        Future<Long> waits = words[8].equals("readers") ? threads.submit(writes(words, clients, turn)) : null;
        List<long[]> holds = new ArrayList<>();
        for (Future<List<long[]>> work : running) {
            holds.addAll(work.get());
        }
        long elapsed = System.nanoTime() - began[0];
        long median = waits == null ? handOver(holds, began[0]) : waits.get();
        return holds.size() + " " + elapsed + " " + median;
    }

    /** A writer in a session of its own, which waits a second before each write: how long it waited for the lock, the median. */
    private static Callable<Long> writes(String[] words, int index, long turn) throws Exception {
        Cycle cycle = cycle("write", words[1], index, words[2] + "/0", "writer");
        long pause = TimeUnit.SECONDS.toNanos(1);
        return () -> {
            List<Long> waits = new ArrayList<>();
            for (long began = System.nanoTime(); System.nanoTime() - began + pause < turn;) {
                TimeUnit.NANOSECONDS.sleep(pause);
                long asked = System.nanoTime();
                waits.add(cycle.run(0)[0] - asked);
            }
            waits.sort(Comparator.naturalOrder());
            return waits.isEmpty() ? 0 : waits.get(waits.size() / 2);
        };
    }

    /** One way to have something for a while. */
    private interface Cycle {
        /** When it was had, and when it began to be given up. */
        long[] run(long hold) throws Exception;
    }

    private static List<long[]> cycles(Cycle cycle, long hold, long began, long turn) throws Exception {
        List<long[]> holds = new ArrayList<>();
        while (System.nanoTime() - began < turn) {
            holds.add(cycle.run(hold));
        }
        return holds;
    }

    /** Waits as a holder that works, and says when it began and ended. */
    private static long[] work(long hold) {
        long acquired = System.nanoTime();
        for (long left = hold; left > 0; left = hold - (System.nanoTime() - acquired)) {
            LockSupport.parkNanos(left);
        }
        return new long[] {acquired, System.nanoTime()};
    }

    private static long handOver(List<long[]> holds, long began) {
        if (holds.size() < 2) {
            return 0;
        }
        holds.sort(Comparator.comparingLong(hold -> hold[0] - began));
        long[] each = new long[holds.size() - 1];
        for (int i = 0; i < each.length; i++) {
            each[i] = Math.max(0, holds.get(i + 1)[0] - holds.get(i)[1]);
        }
        Arrays.sort(each);
        return each[each.length / 2];
    }

    private static String first(String servers, String path, int count, String recipe) throws Exception {
        long acquiring = 0;
        long releasing = 0;
        for (int i = 0; i < count; i++) {
            Cycle cycle = cycle(recipe, session(servers, 0), path + "/" + i);
            long began = System.nanoTime();
            long[] held = cycle.run(0);
            acquiring += held[0] - began;
            releasing += System.nanoTime() - held[1];
        }
        return acquiring / count + " " + releasing / count;
    }

    private static Cycle cycle(String recipe, String servers, int index, String path, String owner) throws Exception {
        CuratorFramework session = session(servers, index);
        String key = servers + " " + index + " " + path + " " + owner;
        return cycles.computeIfAbsent(key, unused -> cycle(recipe, session, path));
    }

    private static Cycle cycle(String recipe, CuratorFramework session, String path) {
        String[] words = recipe.split("-(?=[0-9])");
        switch (words[0]) {
            case "latch":
                return hold -> {
                    LeaderLatch latch = new LeaderLatch(session, path);
                    latch.start();
                    latch.await();
                    long[] led = work(hold);
                    latch.close();
                    return led;
                };
            case "selector":
                return new Terms(session, path);
            case "semaphore":
                InterProcessSemaphoreV2 semaphore = new InterProcessSemaphoreV2(session, path, Integer.parseInt(words[1]));
                return hold -> {
                    Lease lease = semaphore.acquire();
                    long[] held = work(hold);
                    lease.close();
                    return held;
                };
            case "read":
            case "readers":
                return of(new InterProcessReadWriteLock(session, path).readLock());
            case "write":
                return of(new InterProcessReadWriteLock(session, path).writeLock());
            case "read-write":
                InterProcessReadWriteLock both = new InterProcessReadWriteLock(session, path);
                Cycle read = of(both.readLock());
                Cycle write = of(both.writeLock());
                int[] cycles = new int[1];
                return hold -> (cycles[0]++ % 10 == 9 ? write : read).run(hold);
            case "multi":
                List<String> paths = new ArrayList<>();
                for (int i = 0; i < Integer.parseInt(words[1]); i++) {
                    paths.add(path + "/" + i);
                }
                return of(new InterProcessMultiLock(session, paths));
            default:
                return of(new InterProcessMutex(session, path));
        }
    }

    private static Cycle of(InterProcessLock lock) {
        return hold -> {
            lock.acquire();
            long[] held = work(hold);
            lock.release();
            return held;
        };
    }

    /** A selector that is queued anew for each cycle. */
    private static class Terms extends LeaderSelectorListenerAdapter implements Cycle {
        private final LeaderSelector selector;
        private final BlockingQueue<long[]> terms = new LinkedBlockingQueue<>();
        private volatile long hold;
        private boolean started;

        Terms(CuratorFramework session, String path) {
            selector = new LeaderSelector(session, path, this);
        }

        @Override
        public long[] run(long hold) throws Exception {
            this.hold = hold;
            if (started) {
                // It refuses until the last term's node is deleted.
                while (!selector.requeue()) {
                    Thread.sleep(1);
                }
            } else {
                selector.start();
                started = true;
            }
            return terms.take();
        }

        @Override
        public void takeLeadership(CuratorFramework client) {
            terms.add(work(hold));
        }
    }

    private static CuratorFramework session(String servers, int index) throws Exception {
        CuratorFramework session = sessions.computeIfAbsent(servers + " " + index, key -> {
            CuratorFramework client = CuratorFrameworkFactory.builder()
                .connectString(servers)
                .sessionTimeoutMs(30_000)
                .retryPolicy(new ExponentialBackoffRetry(100, 10))
                .ensembleTracker(false) // it would find the way round the proxies
                .build();
            client.start();
            return client;
        });
        session.blockUntilConnected();
        return session;
    }
}
