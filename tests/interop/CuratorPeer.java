import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;

import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.Revoker;
import org.apache.curator.framework.recipes.shared.SharedCount;
import org.apache.curator.framework.recipes.shared.VersionedValue;
import org.apache.curator.retry.ExponentialBackoffRetry;

/**
 * Apache Curator as one side of a pair. A line on standard input is "NUMBER COMMAND ARGUMENTS", and each is answered by a
 * line "> NUMBER ok WORDS" or "> NUMBER error TEXT", in whatever order they come to their ends: any number of waits can be
 * under way. The commands are in lock.rs. The end of the input ends the process at once: its sessions are left to the
 * server.
 *
 * Stamps are System.nanoTime(), on Linux CLOCK_MONOTONIC.
 */
public class CuratorPeer {
    private static final ExecutorService others = Executors.newCachedThreadPool();
    /** Curator's mutexes belong to the thread that acquired them: each owner has its own. */
    private static final Map<String, ExecutorService> owners = new ConcurrentHashMap<>();
    private static final Map<String, CuratorFramework> sessions = new ConcurrentHashMap<>();
    private static final Map<String, CuratorLock> locks = new ConcurrentHashMap<>();
    private static final Map<String, SharedCount> counts = new ConcurrentHashMap<>();

    public static void main(String[] arguments) throws Exception {
        try (BufferedReader input = new BufferedReader(new InputStreamReader(System.in))) {
            for (String line = input.readLine(); line != null; line = input.readLine()) {
                String[] words = line.split(" ");
                threadFor(words).execute(() -> Answers.answer(words, CuratorPeer::obey));
            }
        }
        Runtime.getRuntime().halt(0);
    }

    /** What a lock's owner does is done on its thread. */
    private static ExecutorService threadFor(String[] words) {
        switch (words[1]) {
            case "lock":
            case "counted":
            case "acquire":
            case "release":
                return owners.computeIfAbsent(words[2], unused -> Executors.newSingleThreadExecutor());
            default:
                return others;
        }
    }

    private static String obey(String[] words) throws Exception {
        switch (words[1]) {
            case "connect":
                return connect(words[2], words[3], Integer.parseInt(words[4]));
            case "lock":
                locks.put(words[2], CuratorLock.make(session(words[3]), words[4], words[5]));
                return "";
            case "counted":
                locks.put(words[2], CuratorLock.counted(session(words[3]), words[4], count(words[5])));
                return "";
            case "acquire":
                boolean acquired = lock(words[2]).acquire(Long.parseLong(words[3]), Integer.parseInt(words[4]));
                return (acquired ? "yes " : "no ") + System.nanoTime();
            case "release":
                long before = System.nanoTime();
                lock(words[2]).release();
                return String.valueOf(before);
            case "held":
                boolean believes = lock(words[2]).believes();
                return (believes ? "yes " : "no ") + System.nanoTime();
            case "lost":
                return lost(lock(words[2]));
            case "leader":
                return lock(words[2]).leader();
            case "participants":
                return String.join(" ", lock(words[2]).participants());
            case "revoke":
                Revoker.attemptRevoke(session(words[2]), words[3]);
                return "";
            case "revocable":
                lock(words[2]).makeRevocable();
                return "";
            case "requested":
                lock(words[2]).awaitRequest();
                return String.valueOf(System.nanoTime());
            case "count":
                SharedCount count = new SharedCount(session(words[3]), words[4], Integer.parseInt(words[5]));
                count.start();
                counts.put(words[2], count);
                return "";
            case "value":
                return String.valueOf(count(words[2]).getCount());
            case "set":
                count(words[2]).setCount(Integer.parseInt(words[3]));
                return "";
            case "try-add":
                SharedCount tried = count(words[2]);
                VersionedValue<Integer> seen = tried.getVersionedValue();
                return tried.trySetCount(seen, seen.getValue() + Integer.parseInt(words[3])) ? "yes" : "no";
            default:
                throw new IllegalArgumentException("unknown: " + words[1]);
        }
    }

    private static String connect(String name, String servers, int timeout) throws Exception {
        CuratorFrameworkFactory.Builder builder = CuratorFrameworkFactory.builder()
            .connectString(servers)
            .sessionTimeoutMs(timeout)
            .connectionTimeoutMs(timeout)
            .retryPolicy(new ExponentialBackoffRetry(100, 10));
        keepAddresses(builder);
        CuratorFramework client = builder.build();
        client.start();
        if (!client.blockUntilConnected(60, TimeUnit.SECONDS)) {
            throw new IllegalStateException("no session");
        }
        sessions.put(name, client);
        return "";
    }

    /**
     * A session that asks the servers for their addresses would find the way round a proxy. Curator before 5 has no switch for
     * that. Curator 4 asks all the same, and a single server has no addresses to tell.
     */
    private static void keepAddresses(CuratorFrameworkFactory.Builder builder) throws ReflectiveOperationException {
        try {
            builder.getClass().getMethod("ensembleTracker", boolean.class).invoke(builder, false);
        } catch (NoSuchMethodException isBefore5) {
            // The single server of these tests names no address.
        }
    }

    /** When it does not believe any more. */
    private static String lost(CuratorLock lock) throws InterruptedException {
        while (lock.believes()) {
            Thread.sleep(1);
        }
        return "NotLeader " + System.nanoTime();
    }

    private static CuratorFramework session(String name) {
        return found(sessions.get(name), name);
    }

    private static CuratorLock lock(String name) {
        return found(locks.get(name), name);
    }

    private static SharedCount count(String name) {
        return found(counts.get(name), name);
    }

    private static <T> T found(T it, String name) {
        if (it == null) {
            throw new IllegalArgumentException("there is no " + name);
        }
        return it;
    }
}
