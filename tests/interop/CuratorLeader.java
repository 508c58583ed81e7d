import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.LeaderSelector;
import org.apache.curator.framework.recipes.leader.LeaderSelectorListenerAdapter;
import org.apache.curator.framework.recipes.leader.Participant;

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

    /**
     * Kinds are "latch", "selector", and "selector-deaf", whose body is interrupted in vain; an id follows in hexadecimal digits,
     * as it may have spaces.
     */
    static CuratorLeader make(CuratorFramework session, String[] kind, String path) {
        String id = kind.length < 2 ? "" : text(kind[1]);
        if (kind[0].equals("latch")) {
            return new OfLatch(session, path, id);
        }
        return new OfSelector(session, path, id, kind[0].equals("selector-deaf"));
    }

    abstract Participant current() throws Exception;

    abstract Collection<Participant> all() throws Exception;

    /** Who leads; nothing where nobody does. */
    @Override
    String leader() throws Exception {
        Participant leader = current();
        return leader.isLeader() ? told(leader) : "";
    }

    /** Ids, not paths: Curator does not tell the nodes of these. */
    @Override
    Collection<String> participants() throws Exception {
        List<String> told = new ArrayList<>();
        for (Participant participant : all()) {
            told.add(told(participant));
        }
        return told;
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
        Participant current() throws Exception {
            return latch.getLeader();
        }

        @Override
        Collection<Participant> all() throws Exception {
            return latch.getParticipants();
        }
    }

    private static class OfSelector extends CuratorLeader {
        private volatile LeaderSelector selector;
        /** What lets the body go, of each term that begins. */
        private BlockingQueue<CountDownLatch> terms;
        private CountDownLatch term;
        private final boolean deaf;
        private boolean started;

        OfSelector(CuratorFramework session, String path, String id, boolean deaf) {
            super(session, path, id);
            this.deaf = deaf;
            make();
        }

        private void make() {
            BlockingQueue<CountDownLatch> begun = new LinkedBlockingQueue<>();
            LeaderSelector made = new LeaderSelector(session, path, new LeaderSelectorListenerAdapter() {
                @Override
                public void takeLeadership(CuratorFramework client) throws Exception {
                    CountDownLatch mayLetGo = new CountDownLatch(1);
                    begun.add(mayLetGo);
                    if (deaf) {
                        awaitInVain(mayLetGo);
                    } else {
                        mayLetGo.await();
                    }
                }
            });
            if (!id.isEmpty()) {
                made.setId(id);
            }
            selector = made;
            terms = begun;
            started = false;
        }

        private static void awaitInVain(CountDownLatch mayLetGo) {
            while (mayLetGo.getCount() > 0) {
                try {
                    mayLetGo.await();
                } catch (InterruptedException unheard) {
                    // It goes on.
                }
            }
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
        Participant current() throws Exception {
            return selector.getLeader();
        }

        @Override
        Collection<Participant> all() throws Exception {
            return selector.getParticipants();
        }
    }
}
