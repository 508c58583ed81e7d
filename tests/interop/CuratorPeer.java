import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Map;
import java.util.StringJoiner;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;

import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.Revoker;
import org.apache.curator.framework.recipes.shared.SharedCount;
import org.apache.curator.framework.recipes.shared.SharedCountListener;
import org.apache.curator.framework.recipes.shared.SharedCountReader;
import org.apache.curator.framework.recipes.shared.VersionedValue;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.framework.state.ConnectionStateErrorPolicy;
import org.apache.curator.framework.state.SessionConnectionStateErrorPolicy;
import org.apache.curator.framework.state.StandardConnectionStateErrorPolicy;
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
    private static final long LIMIT_IN_A_LOOP = 30_000;
    private static final long LONGEST_REST = 5_000;
    private static final ConnectionStateErrorPolicy STANDARD = new StandardConnectionStateErrorPolicy();
    private static final ExecutorService others = threads("other");
    /** Curator's mutexes belong to the thread that acquired them: each owner has its own. */
    private static final Map<String, ExecutorService> owners = new ConcurrentHashMap<>();
    private static final Map<String, CuratorFramework> sessions = new ConcurrentHashMap<>();
    private static final Map<String, CuratorLock> locks = new ConcurrentHashMap<>();
    private static final Map<String, SharedCount> counts = new ConcurrentHashMap<>();

    public static void main(String[] arguments) throws Exception {
        try (BufferedReader input = new BufferedReader(new InputStreamReader(System.in))) {
            for (String line = input.readLine(); line != null; line = input.readLine()) {
                String[] words = line.split(" ");
                threadFor(words).execute(() -> answer(words));
            }
        }
        Runtime.getRuntime().halt(0);
    }

    /** What a lock's owner does is done on its thread: "owner", "owner.read" and "owner.write" are one owner's. */
    private static ExecutorService threadFor(String[] words) {
        switch (words[1]) {
            case "lock":
            case "acquire":
            case "release":
            case "holds":
            case "holds-under-faults":
            case "downgrades":
                String owner = words[2].split("\\.")[0];
                return owners.computeIfAbsent(owner, CuratorPeer::single);
            default:
                return others;
        }
    }

    private static ExecutorService single(String name) {
        return Executors.newSingleThreadExecutor(work -> daemon(work, name));
    }

    private static ExecutorService threads(String name) {
        return Executors.newCachedThreadPool(work -> daemon(work, name));
    }

    private static Thread daemon(Runnable work, String name) {
        Thread thread = new Thread(work, name);
        thread.setDaemon(true);
        return thread;
    }

    private static void answer(String[] words) {
        String answer;
        try {
            answer = "ok " + obey(words);
        } catch (Throwable failure) {
            answer = "error " + String.valueOf(failure).replace('\n', ' ');
        }
        synchronized (System.out) {
            System.out.println("> " + words[0] + " " + answer);
            System.out.flush();
        }
    }

    private static String obey(String[] words) throws Exception {
        switch (words[1]) {
            case "connect":
                return connect(words[2], words[3], Integer.parseInt(words[4]), 100, null, STANDARD);
            case "connect-in":
                return connect(words[2], words[3], Integer.parseInt(words[4]), 100, words[5], STANDARD);
            case "connect-hasty":
                return connect(words[2], words[3], Integer.parseInt(words[4]), 33, null, STANDARD);
            case "connect-to-the-end":
                ConnectionStateErrorPolicy lenient = new SessionConnectionStateErrorPolicy();
                return connect(words[2], words[3], Integer.parseInt(words[4]), 100, null, lenient);
            case "session":
                return Long.toString(session(words[2]).getZookeeperClient().getZooKeeper().getSessionId());
            case "lock":
                locks.put(words[2], CuratorLock.make(words[2], session(words[3]), words[4], words[5], counts));
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
            case "holds":
                return holds(lock(words[2]), Long.parseLong(words[3]), Long.parseLong(words[4]));
            case "holds-under-faults":
                return holdsUnderFaults(lock(words[2]), Long.parseLong(words[3]), Long.parseLong(words[4]));
            case "downgrades":
                return downgrades(lock(words[2]), lock(words[3]), Long.parseLong(words[4]), Long.parseLong(words[5]));
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
            case "await":
                return await(count(words[2]), Integer.parseInt(words[3]));
            default:
                throw new IllegalArgumentException("unknown: " + words[1]);
        }
    }

    private static String connect(
        String name,
        String servers,
        int timeout,
        int percent,
        String namespace,
        ConnectionStateErrorPolicy policy
    ) throws Exception {
        CuratorFramework client = CuratorFrameworkFactory.builder()
            .connectString(servers)
            .sessionTimeoutMs(timeout)
            .connectionTimeoutMs(timeout)
            .simulatedSessionExpirationPercent(percent)
            .namespace(namespace)
            .connectionStateErrorPolicy(policy)
            .retryPolicy(new ExponentialBackoffRetry(100, 10))
            .ensembleTracker(false) // it would find the way round a proxy
            .build();
        client.start();
        if (!client.blockUntilConnected(60, TimeUnit.SECONDS)) {
            throw new IllegalStateException("no session");
        }
        sessions.put(name, client);
        return "";
    }

    /** What it logs of a hold lies within it: after the acquisition, before the release. */
    private static String holds(CuratorLock lock, long millis, long longest) throws Exception {
        StringJoiner log = new StringJoiner(" ");
        for (long end = after(millis); System.nanoTime() - end < 0; pause(longest)) {
            if (!lock.acquire(LIMIT_IN_A_LOOP, 1)) {
                throw new IllegalStateException("not acquired");
            }
            long from = System.nanoTime();
            pause(longest);
            log.add(from + ":" + System.nanoTime());
            lock.release();
        }
        return log.toString();
    }

    /**
     * Whatever becomes of the session. Of a hold it logs what was believed: from a stamp after the first yes to one before the
     * last. How many were lost is the last word; it goes on until one was.
     */
    private static String holdsUnderFaults(CuratorLock lock, long millis, long longest) throws Exception {
        StringJoiner log = new StringJoiner(" ");
        int lost = 0;
        for (long end = after(millis); System.nanoTime() - end < 0 || lost == 0; pause(LONGEST_REST)) {
            if (!acquiredNow(lock)) {
                continue;
            }
            boolean believes = lock.believes();
            long from = System.nanoTime();
            if (!believes) {
                lost++;
            } else {
                long last = from;
                long until = from + TimeUnit.MICROSECONDS.toNanos(ThreadLocalRandom.current().nextLong(longest + 1));
                while (believes && System.nanoTime() - until < 0) {
                    Thread.sleep(2);
                    long before = System.nanoTime();
                    believes = lock.believes();
                    last = believes ? before : last;
                }
                log.add(from + ":" + last);
                lost += believes ? 0 : 1;
            }
            try {
                lock.release();
            } catch (Exception unconfirmed) {
                // That it was lost is known; and a release that nobody confirms goes on.
            }
        }
        return log.add(String.valueOf(lost)).toString();
    }

    private static boolean acquiredNow(CuratorLock lock) {
        try {
            return lock.acquire(1000, 1);
        } catch (Exception cutOff) {
            return false;
        }
    }

    /** When it does not believe any more. */
    private static String lost(CuratorLock lock) throws InterruptedException {
        while (lock.believes()) {
            Thread.sleep(1);
        }
        return "NotLeader " + System.nanoTime();
    }

    /** Each write hold is followed by a read hold that begins within it. */
    private static String downgrades(CuratorLock write, CuratorLock read, long millis, long longest) throws Exception {
        StringJoiner log = new StringJoiner(" ");
        for (long end = after(millis); System.nanoTime() - end < 0; pause(longest)) {
            if (!write.acquire(LIMIT_IN_A_LOOP, 1)) {
                throw new IllegalStateException("write not acquired");
            }
            long wrote = System.nanoTime();
            pause(longest);
            if (!read.acquire(LIMIT_IN_A_LOOP, 1)) {
                throw new IllegalStateException("read not acquired");
            }
            long reads = System.nanoTime();
            log.add(wrote + ":" + reads);
            write.release();
            pause(longest);
            log.add(reads + ":" + System.nanoTime());
            read.release();
        }
        return log.toString();
    }

    private static long after(long millis) {
        return System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(millis);
    }

    private static void pause(long longestMicros) {
        LockSupport.parkNanos(ThreadLocalRandom.current().nextLong(TimeUnit.MICROSECONDS.toNanos(longestMicros) + 1));
    }

    private static String await(SharedCount count, int value) throws Exception {
        CountDownLatch seen = new CountDownLatch(1);
        count.addListener(new SharedCountListener() {
            @Override
            public void countHasChanged(SharedCountReader reader, int now) {
                if (now == value) {
                    seen.countDown();
                }
            }

            @Override
            public void stateChanged(CuratorFramework client, ConnectionState state) {
                // Not asked for.
            }
        });
        if (count.getCount() != value) {
            seen.await();
        }
        return String.valueOf(value);
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
