import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.Collection;
import java.util.Deque;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;

import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.LeaderSelector;
import org.apache.curator.framework.recipes.leader.LeaderSelectorListenerAdapter;
import org.apache.curator.framework.recipes.leader.Participant;
import org.apache.curator.framework.recipes.locks.InterProcessLock;
import org.apache.curator.framework.recipes.locks.InterProcessMultiLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreMutex;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.framework.recipes.locks.StandardLockInternalsDriver;
import org.apache.curator.framework.recipes.shared.SharedCountReader;

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

    static CuratorLock make(CuratorFramework session, String kind, String path) {
        String[] words = kind.split(":");
        switch (words[0]) {
            case "mutex":
                return new OfMutex(new InterProcessMutex(session, path));
            case "driver":
                return new OfMutex(new InterProcessMutex(session, path, new ByLastDigits()));
            case "read":
                return new OfMutex(new InterProcessReadWriteLock(session, path).readLock());
            case "write":
                return new OfMutex(new InterProcessReadWriteLock(session, path).writeLock());
            case "semaphore-mutex":
                return new OfLock(new InterProcessSemaphoreMutex(session, path));
            case "latch":
            case "selector":
                return CuratorLeader.make(session, words, path);
            case "multi":
                return new OfLock(new InterProcessMultiLock(session, Arrays.asList(path.split(","))));
            case "semaphore":
                return new OfSemaphore(new InterProcessSemaphoreV2(session, path, Integer.parseInt(words[1])));
            default:
                throw new IllegalArgumentException("unknown kind: " + kind);
        }
    }

    static CuratorLock counted(CuratorFramework session, String path, SharedCountReader limit) {
        return new OfSemaphore(new InterProcessSemaphoreV2(session, path, limit));
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
    }
}

/** A leader of Curator's, by a latch or by a selector: to lead is to hold. */
abstract class CuratorLeader extends CuratorLock {
    protected final CuratorFramework session;
    protected final String path;
    /** Empty where none was given. */
    protected final String id;

    private CuratorLeader(CuratorFramework session, String path, String id) {
        this.session = session;
        this.path = path;
        this.id = id;
    }

    /** Kinds are "latch" and "selector"; an id follows in hexadecimal digits, as it may have spaces. */
    static CuratorLeader make(CuratorFramework session, String[] kind, String path) {
        String id = kind.length < 2 ? "" : text(kind[1]);
        if (kind[0].equals("latch")) {
            return new OfLatch(session, path, id);
        }
        return new OfSelector(session, path, id);
    }

    /** Nothing where nobody leads. */
    static String leader(Participant leader) {
        return leader.isLeader() ? told(leader) : "";
    }

    /** Ids, not paths: Curator does not tell the nodes of these. */
    static Collection<String> ids(Collection<Participant> participants) {
        return participants.stream().map(CuratorLeader::told).collect(Collectors.toList());
    }

    private static String told(Participant participant) {
        StringBuilder told = new StringBuilder(participant.isLeader() ? "leads=" : "waits=");
        for (byte one : participant.getId().getBytes(StandardCharsets.UTF_8)) {
            told.append(String.format("%02x", one));
        }
        return told.toString();
    }

    private static String text(String digits) {
        byte[] bytes = new byte[digits.length() / 2];
        for (int place = 0; place < bytes.length; place++) {
            bytes[place] = (byte) Integer.parseInt(digits.substring(2 * place, 2 * place + 2), 16);
        }
        return new String(bytes, StandardCharsets.UTF_8);
    }

    /** A latch that was closed does not start again: each time it is another. */
    private static class OfLatch extends CuratorLeader {
        private volatile LeaderLatch latch;

        OfLatch(CuratorFramework session, String path, String id) {
            super(session, path, id);
            latch = new LeaderLatch(session, path, id);
        }

        @Override
        boolean acquire(long millis, int count) throws Exception {
            LeaderLatch made = new LeaderLatch(session, path, id);
            latch = made;
            made.start();
            if (millis < 0) {
                made.await();
                return true;
            }
            boolean leads = made.await(millis, TimeUnit.MILLISECONDS);
            if (!leads) {
                made.close();
            }
            return leads;
        }

        @Override
        void release() throws Exception {
            latch.close();
        }

        @Override
        boolean believes() {
            return latch.hasLeadership();
        }

        @Override
        String leader() throws Exception {
            return leader(latch.getLeader());
        }

        @Override
        Collection<String> participants() throws Exception {
            return ids(latch.getParticipants());
        }
    }

    private static class OfSelector extends CuratorLeader {
        private volatile LeaderSelector selector;
        /** What lets the body go, of each term that begins. */
        private BlockingQueue<CountDownLatch> terms;
        private CountDownLatch term;
        private boolean started;

        OfSelector(CuratorFramework session, String path, String id) {
            super(session, path, id);
            make();
        }

        private void make() {
            BlockingQueue<CountDownLatch> begun = new LinkedBlockingQueue<>();
            LeaderSelector made = new LeaderSelector(session, path, new LeaderSelectorListenerAdapter() {
                @Override
                public void takeLeadership(CuratorFramework client) throws Exception {
                    CountDownLatch mayLetGo = new CountDownLatch(1);
                    begun.add(mayLetGo);
                    mayLetGo.await();
                }
            });
            if (!id.isEmpty()) {
                made.setId(id);
            }
            selector = made;
            terms = begun;
            started = false;
        }

        @Override
        boolean acquire(long millis, int count) throws Exception {
            if (started) {
                while (!selector.requeue()) { // it has not left the queue yet
                    Thread.sleep(1);
                }
            } else {
                selector.start();
                started = true;
            }
            term = terms.poll(millis < 0 ? Long.MAX_VALUE : millis, TimeUnit.MILLISECONDS);
            if (term == null) {
                selector.close(); // nothing less takes it out of the queue
                make();
            }
            return term != null;
        }

        @Override
        void release() {
            term.countDown();
        }

        @Override
        boolean believes() {
            return selector.hasLeadership();
        }

        @Override
        String leader() throws Exception {
            return leader(selector.getLeader());
        }

        @Override
        Collection<String> participants() throws Exception {
            return ids(selector.getParticipants());
        }
    }
}
