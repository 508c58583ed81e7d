import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;

import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.RetryNTimes;

/**
 * Apache Curator's side: the commands are those of `worker.rs`. A waiter is a thread with an InterProcessMutex of its
 * own, for one that threads share wakes all of them.
 */
public class CuratorWorker {
    private final List<CuratorFramework> sessions = new ArrayList<>();
    private Round round = new Round();
    private InterProcessMutex gate;
    private CuratorFramework gateSession;
    /** Of the last `contend`. */
    private long cycles;
    private final List<ExecutorService> holders = new ArrayList<>();
    private final List<List<InterProcessMutex>> locks = new ArrayList<>();

    /** How far the waiters have come. */
    private static class Round {
        final AtomicInteger held = new AtomicInteger();
        final CountDownLatch drained = new CountDownLatch(1);
        volatile int target;
    }

    public static void main(String[] arguments) throws Exception {
        CuratorWorker worker = new CuratorWorker();
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] words = line.split(" ");
            if (words[0].equals("end")) {
                worker.end();
                break;
            }
            try {
                System.out.println("ok " + worker.answer(words) + " " + worker.cycles);
            } catch (Throwable failure) {
                System.out.println("failed " + String.valueOf(failure).replace('\n', ' '));
            }
            System.out.flush();
        }
        Runtime.getRuntime().halt(0);
    }

    private double answer(String[] words) throws Exception {
        switch (words[0]) {
            case "connect":
                return connect(Integer.parseInt(words[1]), words[2], Integer.parseInt(words[3]));
            case "warm":
                return warm(words[1], Integer.parseInt(words[2]));
            case "gate":
                return gate(words[1], words[2], Integer.parseInt(words[3]));
            case "enqueue":
                return enqueue(words[1], Integer.parseInt(words[2]));
            case "drain":
                return drain(Integer.parseInt(words[1]));
            case "hold":
                return hold(words[1], Integer.parseInt(words[2]), Integer.parseInt(words[3]));
            case "release":
                return release();
            case "contend":
                return contend(words[1], words[2].equals("own"), Long.parseLong(words[3]));
            case "first":
                return first(words[1], words[2], Integer.parseInt(words[3]));
            case "cycles":
                return cycles(words[1], Integer.parseInt(words[2]));
            case "memory":
                System.gc();
                return Runtime.getRuntime().totalMemory() - Runtime.getRuntime().freeMemory();
            default:
                throw new IllegalArgumentException(words[0]);
        }
    }

    private double connect(int count, String servers, int timeout) throws Exception {
        long began = System.nanoTime();
        for (int i = 0; i < count; i++) {
            sessions.add(session(servers, timeout));
        }
        return since(began);
    }

    private double gate(String path, String servers, int timeout) throws Exception {
        long began = System.nanoTime();
        if (gateSession == null) {
            gateSession = session(servers, timeout);
        }
        gate = new InterProcessMutex(gateSession, path);
        gate.acquire();
        return since(began);
    }

    private double warm(String path, int cycles) throws Exception {
        long began = System.nanoTime();
        List<Callable<Void>> tasks = new ArrayList<>();
        for (int i = 0; i < sessions.size(); i++) {
            InterProcessMutex mutex = new InterProcessMutex(sessions.get(i), path + i);
            tasks.add(() -> {
                for (int cycle = 0; cycle < cycles; cycle++) {
                    mutex.acquire();
                    mutex.release();
                }
                return null;
            });
        }
        all(tasks);
        return since(began);
    }

    private double enqueue(String path, int count) {
        Round now = new Round();
        round = now;
        for (int i = 0; i < count; i++) {
            InterProcessMutex mutex = new InterProcessMutex(sessions.get(i % sessions.size()), path);
            Thread waiter = new Thread(null, () -> {
                try {
                    mutex.acquire();
                    int turn = now.held.incrementAndGet();
                    if (turn <= now.target) {
                        mutex.release();
                    }
                    if (turn == now.target) {
                        now.drained.countDown();
                    }
                } catch (Exception end) {
                    // Told to end.
                }
            }, "waiter", 256 * 1024);
            waiter.setDaemon(true);
            waiter.start();
        }
        return 0;
    }

    private double drain(int count) throws Exception {
        round.target = count;
        long began = System.nanoTime();
        gate.release();
        round.drained.await();
        return since(began);
    }

    /** A lock belongs to a thread, so each of them keeps its own. */
    private double hold(String prefix, int count, int width) throws Exception {
        List<Future<?>> futures = new ArrayList<>();
        long began = System.nanoTime();
        for (int i = 0; i < Math.min(width, count); i++) {
            int first = i;
            List<InterProcessMutex> mine = new ArrayList<>();
            ExecutorService holder = Executors.newSingleThreadExecutor();
            holders.add(holder);
            locks.add(mine);
            futures.add(holder.submit((Callable<Void>) () -> {
                for (int number = first; number < count; number += width) {
                    CuratorFramework session = sessions.get(number % sessions.size());
                    InterProcessMutex mutex = new InterProcessMutex(session, prefix + number);
                    mutex.acquire();
                    mine.add(mutex);
                }
                return null;
            }));
        }
        for (Future<?> future : futures) {
            future.get();
        }
        return since(began);
    }

    private double release() throws Exception {
        List<Future<?>> futures = new ArrayList<>();
        long began = System.nanoTime();
        for (int i = 0; i < holders.size(); i++) {
            List<InterProcessMutex> mine = locks.get(i);
            futures.add(holders.get(i).submit((Callable<Void>) () -> {
                for (InterProcessMutex mutex : mine) {
                    mutex.release();
                }
                return null;
            }));
        }
        for (Future<?> future : futures) {
            future.get();
        }
        return since(began);
    }

    private double contend(String path, boolean own, long milliseconds) throws Exception {
        AtomicBoolean over = new AtomicBoolean();
        AtomicLong done = new AtomicLong();
        ExecutorService threads = Executors.newCachedThreadPool();
        List<Future<?>> futures = new ArrayList<>();
        for (int i = 0; i < sessions.size(); i++) {
            InterProcessMutex mutex = new InterProcessMutex(sessions.get(i), own ? path + i : path);
            futures.add(threads.submit((Callable<Void>) () -> {
                while (!over.get()) {
                    mutex.acquire();
                    done.incrementAndGet();
                    mutex.release();
                }
                return null;
            }));
        }
        Thread.sleep(300);
        long before = done.get();
        long began = System.nanoTime();
        Thread.sleep(milliseconds);
        long after = done.get();
        double seconds = since(began);
        over.set(true);
        for (Future<?> future : futures) {
            future.get();
        }
        threads.shutdown();
        cycles = done.get();
        return (after - before) / seconds;
    }

    private double first(String path, String servers, int timeout) throws Exception {
        CuratorFramework session = session(servers, timeout);
        InterProcessMutex mutex = new InterProcessMutex(session, path);
        long began = System.nanoTime();
        mutex.acquire();
        double seconds = since(began);
        mutex.release();
        session.close();
        return seconds;
    }

    private double cycles(String path, int count) throws Exception {
        InterProcessMutex mutex = new InterProcessMutex(sessions.get(0), path);
        long began = System.nanoTime();
        for (int cycle = 0; cycle < count; cycle++) {
            mutex.acquire();
            mutex.release();
        }
        return since(began);
    }

    private void end() throws Exception {
        List<Callable<Void>> tasks = new ArrayList<>();
        if (gateSession != null) {
            sessions.add(gateSession);
        }
        for (CuratorFramework session : sessions) {
            tasks.add(() -> {
                // Not `CuratorFramework.close`, which waits a second for threads that wait for locks.
                session.getZookeeperClient().getZooKeeper().close();
                return null;
            });
        }
        all(tasks);
    }

    private static CuratorFramework session(String servers, int timeout) throws Exception {
        CuratorFramework session = CuratorFrameworkFactory.builder()
            .connectString(servers)
            .sessionTimeoutMs(timeout)
            .connectionTimeoutMs(15_000)
            .retryPolicy(new RetryNTimes(3, 100))
            .ensembleTracker(false)
            .build();
        session.start();
        session.blockUntilConnected();
        return session;
    }

    private static void all(List<Callable<Void>> tasks) throws Exception {
        ExecutorService threads = Executors.newCachedThreadPool();
        for (Future<Void> future : threads.invokeAll(tasks)) {
            future.get();
        }
        threads.shutdown();
    }

    private static double since(long began) {
        return (System.nanoTime() - began) / 1e9;
    }
}
