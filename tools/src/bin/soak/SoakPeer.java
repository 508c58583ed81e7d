import java.io.BufferedReader;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;

import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.RetryNTimes;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.data.Stat;

/**
 * A contender by Apache Curator's mutex, read-write lock or semaphore. It writes the log of a worker (log.rs), and obeys the order
 * "quiet". Arguments: the log, the identity, the servers, the lock's path, the session timeout in milliseconds, the recipe, the leases of
 * a semaphore. The end of the input ends the process.
 *
 * It believes to hold while isAcquiredInThisProcess is true, where there is such a method, and the connection's listener was not
 * notified of LOST.
 */
public class SoakPeer {
    private static final Random random = new Random();
    private static FileOutputStream log;
    private static volatile boolean quiet;
    private static volatile boolean lost;

    public static void main(String[] arguments) throws Exception {
        log = new FileOutputStream(arguments[0], true);
        Thread orders = new Thread(SoakPeer::obey);
        orders.setDaemon(true);
        orders.start();
        int timeout = Integer.parseInt(arguments[4]);
        CuratorFrameworkFactory.Builder builder = CuratorFrameworkFactory.builder()
            .connectString(arguments[2])
            .sessionTimeoutMs(timeout)
            .connectionTimeoutMs(timeout)
            .retryPolicy(new RetryNTimes(20, 100));
        keepAddresses(builder);
        CuratorFramework client = builder.build();
        client.getConnectionStateListenable().addListener((unused, state) -> {
            if (state == ConnectionState.LOST) {
                lost = true;
            }
        });
        client.start();
        while (!quiet) {
            try {
                turn(client, lock(client, arguments), timeout);
            } catch (Exception exception) {
                String why = exception.toString().replaceAll("[\\\\\"\\p{Cntrl}]", " ");
                write(System.nanoTime(), "{\"gave_up\":{\"why\":\"" + why + "\"}}");
            }
            Thread.sleep(random.nextInt(random.nextInt(3) == 0 ? 800 : 10));
        }
        write(System.nanoTime(), "\"quiet\"");
        Thread.sleep(Long.MAX_VALUE);
    }

    private static void obey() {
        try (BufferedReader input = new BufferedReader(new InputStreamReader(System.in))) {
            for (String line = input.readLine(); line != null; line = input.readLine()) {
                quiet |= line.equals("quiet");
            }
        } catch (Exception exception) {
            exception.printStackTrace();
        }
        Runtime.getRuntime().halt(0);
    }

    private static Lock lock(CuratorFramework client, String[] arguments) {
        String path = arguments[3];
        byte[] identity = arguments[1].getBytes(StandardCharsets.UTF_8);
        switch (arguments[5]) {
            case "rw":
                return new Half(client, path, identity);
            case "semaphore":
                return new Permit(client, path, identity, Integer.parseInt(arguments[6]));
            default:
                return new Mutex(client, path, identity);
        }
    }

    private static void turn(CuratorFramework client, Lock lock, int timeout) throws Exception {
        lost = false;
        write(System.nanoTime(), "{\"asks\":{\"how\":\"acquire\"}}");
        lock.acquire();
        try {
            String path = lock.node();
            Stat node = path == null ? null : client.checkExists().forPath(path);
            if (node == null) {
                throw new IllegalStateException("its node was deleted");
            }
            String parent = path.substring(0, path.lastIndexOf('/'));
            List<String> children = client.getChildren().forPath(parent);
            hold(lock, path, node, before(path, children, parent), steps(timeout));
        } finally {
            lock.release();
        }
    }

    /** Claims until the steps are over, or the lock is lost. */
    private static void hold(Lock lock, String path, Stat node, String before, int steps) throws Exception {
        String hold = "\"hold\":[\"" + lock.mode() + "\"," + node.getCzxid() + "]";
        write(System.nanoTime(), "{\"holds\":{" + hold + ",\"node\":\"" + path + "\"}}");
        write(System.nanoTime(), "{\"behind\":{" + hold + ",\"nodes\":[" + before + "]}}");
        for (int step = 0; step < steps; step++) {
            long asked = System.nanoTime();
            if (lost || !lock.isAcquired()) {
                write(asked, "{\"lost\":{" + hold + ",\"how\":\"LOST\"}}");
                return;
            }
            write(asked, "{\"yes\":{" + hold + ",\"after\":" + System.nanoTime() + "}}");
            Thread.sleep(3);
        }
        write(System.nanoTime(), "{\"releases\":{" + hold + ",\"how\":\"worked\"}}");
    }

    /** As many as those of worker.rs. */
    private static int steps(int timeout) {
        int kind = random.nextInt(100);
        if (kind < 70) {
            return 2 + random.nextInt(18);
        }
        return kind < 95 ? 20 + random.nextInt(300) : timeout * 2 / 5;
    }

    /** The paths of the children with a smaller number than the node. */
    private static String before(String node, List<String> children, String path) {
        List<String> before = new ArrayList<>();
        for (String child : children) {
            if (number(child) < number(node)) {
                before.add("\"" + path + "/" + child + "\"");
            }
        }
        return String.join(",", before);
    }

    private static long number(String node) {
        return Long.parseLong(node.substring(node.length() - 10));
    }

    /** One write for each line: the process can be killed at any time. */
    private static synchronized void write(long at, String event) {
        try {
            log.write(("[" + at + "," + event + "]\n").getBytes(StandardCharsets.UTF_8));
        } catch (java.io.IOException exception) {
            throw new java.io.UncheckedIOException(exception);
        }
    }

    /** A session that asks the servers for their addresses would find the way round a proxy. Curator before 5 has no such switch. */
    private static void keepAddresses(CuratorFrameworkFactory.Builder builder) throws ReflectiveOperationException {
        try {
            builder.getClass().getMethod("ensembleTracker", boolean.class).invoke(builder, false);
        } catch (NoSuchMethodException isBefore5) {
            // Curator 4 goes round the proxies.
        }
    }

    /** Something to hold, by a node in which the identity is written. */
    private interface Lock {
        String mode();

        void acquire() throws Exception;

        String node() throws Exception;

        boolean isAcquired();

        void release() throws Exception;
    }

    private static class Mutex extends InterProcessMutex implements Lock {
        private final byte[] identity;

        Mutex(CuratorFramework client, String path, byte[] identity) {
            super(client, path);
            this.identity = identity;
        }

        @Override
        public String mode() {
            return "lock";
        }

        @Override
        public String node() {
            return getLockPath();
        }

        @Override
        public boolean isAcquired() {
            return isAcquiredInThisProcess();
        }

        @Override
        protected byte[] getLockNodeBytes() {
            return identity;
        }
    }

    /** One half of a read-write lock, by chance. */
    private static class Half implements Lock {
        private final CuratorFramework client;
        private final String path;
        private final byte[] identity;
        private final boolean reads = random.nextBoolean();
        private final InterProcessMutex lock;

        Half(CuratorFramework client, String path, byte[] identity) {
            this.client = client;
            this.path = path;
            this.identity = identity;
            InterProcessReadWriteLock both = new InterProcessReadWriteLock(client, path, identity);
            lock = reads ? both.readLock() : both.writeLock();
        }

        @Override
        public String mode() {
            return reads ? "read" : "write";
        }

        @Override
        public void acquire() throws Exception {
            lock.acquire();
        }

        /** Curator does not tell it. No other node of this session has the identity. */
        @Override
        public String node() throws Exception {
            long session = client.getZookeeperClient().getZooKeeper().getSessionId();
            for (String child : client.getChildren().forPath(path)) {
                String node = path + "/" + child;
                Stat stat = new Stat();
                byte[] data;
                try {
                    data = client.getData().storingStatIn(stat).forPath(node);
                } catch (KeeperException.NoNodeException gone) {
                    continue;
                }
                if (Arrays.equals(data, identity) && stat.getEphemeralOwner() == session) {
                    return node;
                }
            }
            return null;
        }

        @Override
        public boolean isAcquired() {
            return lock.isAcquiredInThisProcess();
        }

        @Override
        public void release() throws Exception {
            lock.release();
        }
    }

    private static class Permit implements Lock {
        private final String path;
        private final InterProcessSemaphoreV2 semaphore;
        private Lease lease;

        Permit(CuratorFramework client, String path, byte[] identity, int leases) {
            this.path = path;
            semaphore = new InterProcessSemaphoreV2(client, path, leases);
            semaphore.setNodeData(identity);
        }

        @Override
        public String mode() {
            return "lease";
        }

        @Override
        public void acquire() throws Exception {
            lease = semaphore.acquire();
        }

        @Override
        public String node() throws Exception {
            return path + "/leases/" + lease.getNodeName();
        }

        @Override
        public boolean isAcquired() {
            return true;
        }

        @Override
        public void release() {
            semaphore.returnLease(lease);
        }
    }
}
