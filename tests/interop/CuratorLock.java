import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Collections;
import java.util.Deque;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;

import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.locks.InterProcessLock;
import org.apache.curator.framework.recipes.locks.InterProcessMultiLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreMutex;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.framework.recipes.locks.StandardLockInternalsDriver;
import org.apache.curator.framework.recipes.shared.SharedCount;

/** A recipe of Curator's, whichever it is. */
abstract class CuratorLock {
    /** Waits for ever where the limit is negative. */
    abstract boolean acquire(long millis, int count) throws Exception;

    abstract void release() throws Exception;

    /** Whether Curator says that it is acquired. */
    boolean believes() {
        throw new UnsupportedOperationException();
    }

    /** Paths of nodes; of leaders: their ids. */
    Collection<String> participants() throws Exception {
        throw new UnsupportedOperationException();
    }

    String leader() throws Exception {
        throw new UnsupportedOperationException();
    }

    void makeRevocable() {
        throw new UnsupportedOperationException();
    }

    void awaitRequest() throws InterruptedException {
        throw new UnsupportedOperationException();
    }

    /** A read lock and a write lock of one owner are two halves of one object: only so can it down-grade. */
    private static final Map<String, InterProcessReadWriteLock> pairs = new ConcurrentHashMap<>();

    static CuratorLock make(
        String name,
        CuratorFramework session,
        String kind,
        String path,
        Map<String, SharedCount> counts
    ) {
        String[] words = kind.split(":");
        switch (words[0]) {
            case "mutex":
                return new OfMutex(new InterProcessMutex(session, path));
            case "driver":
                return new OfMutex(new InterProcessMutex(session, path, new ByLastDigits()));
            case "read":
                return new OfMutex(pair(name, session, path).readLock());
            case "write":
                return new OfMutex(pair(name, session, path).writeLock());
            case "semaphore-mutex":
                return new OfLock(new InterProcessSemaphoreMutex(session, path));
            case "latch":
            case "selector":
            case "selector-deaf":
                return CuratorLeader.make(session, words, path);
            case "multi":
                return new OfLock(new InterProcessMultiLock(session, Arrays.asList(path.split(","))));
            case "semaphore":
                return new OfSemaphore(new InterProcessSemaphoreV2(session, path, Integer.parseInt(words[1])));
            case "counted":
                return new OfSemaphore(new InterProcessSemaphoreV2(session, path, counts.get(words[1])));
            default:
                throw new IllegalArgumentException("unknown kind: " + kind);
        }
    }

    private static InterProcessReadWriteLock pair(String name, CuratorFramework session, String path) {
        String owner = name.split("\\.")[0];
        return pairs.computeIfAbsent(owner, unused -> new InterProcessReadWriteLock(session, path));
    }

    /** Ranks every child by the number that ends its name, whosever it is. */
    private static class ByLastDigits extends StandardLockInternalsDriver {
        @Override
        public String fixForSorting(String name, String lockName) {
            return name.substring(Math.max(0, name.length() - 10));
        }
    }

    private static class OfLock extends CuratorLock {
        private final InterProcessLock lock;

        OfLock(InterProcessLock lock) {
            this.lock = lock;
        }

        @Override
        boolean acquire(long millis, int count) throws Exception {
            if (millis < 0) {
                lock.acquire();
                return true;
            }
            return lock.acquire(millis, TimeUnit.MILLISECONDS);
        }

        @Override
        void release() throws Exception {
            lock.release();
        }

        @Override
        boolean believes() {
            return lock.isAcquiredInThisProcess();
        }
    }

    /** A mutex, and each half of a read-write lock. */
    private static class OfMutex extends OfLock {
        private final InterProcessMutex mutex;
        private final Semaphore requests = new Semaphore(0);

        OfMutex(InterProcessMutex mutex) {
            super(mutex);
            this.mutex = mutex;
        }

        @Override
        Collection<String> participants() throws Exception {
            return mutex.getParticipantNodes();
        }

        @Override
        void makeRevocable() {
            mutex.makeRevocable(unused -> requests.release());
        }

        @Override
        void awaitRequest() throws InterruptedException {
            requests.acquire();
        }
    }

    private static class OfSemaphore extends CuratorLock {
        private final InterProcessSemaphoreV2 semaphore;
        private final Deque<Collection<Lease>> held = new ArrayDeque<>();

        OfSemaphore(InterProcessSemaphoreV2 semaphore) {
            this.semaphore = semaphore;
        }

        @Override
        boolean acquire(long millis, int count) throws Exception {
            Collection<Lease> leases = millis < 0
                ? semaphore.acquire(count)
                : semaphore.acquire(count, millis, TimeUnit.MILLISECONDS);
            if (leases != null) {
                held.push(leases);
            }
            return leases != null;
        }

        @Override
        void release() {
            semaphore.returnAll(held.pop());
        }

        @Override
        Collection<String> participants() throws Exception {
            List<String> paths = new ArrayList<>(semaphore.getParticipantNodes());
            Collections.sort(paths);
            return paths;
        }
    }
}
