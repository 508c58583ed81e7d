import java.io.BufferedReader;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;

import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.RetryNTimes;
import org.apache.zookeeper.data.Stat;

/**
 * A contender by Apache Curator's mutex. It writes the log of a worker (log.rs), and obeys the order "quiet". Arguments: the log,
 * the identity, the servers, the lock's path, the session timeout in milliseconds. The end of the input ends the process.
 *
 * It believes to hold while isAcquiredInThisProcess is true and the connection's listener was not notified of LOST.
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
        write(System.nanoTime(), "{\"starts\":{\"timeout\":" + timeout + "}}");
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
                turn(client, new Mutex(client, arguments[3], arguments[1]), arguments[3], timeout);
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

    private static void turn(CuratorFramework client, Mutex mutex, String path, int timeout) throws Exception {
        lost = false;
        write(System.nanoTime(), "{\"asks\":{\"how\":\"acquire\"}}");
        mutex.acquire();
        try {
            Stat node = client.checkExists().forPath(mutex.node());
            List<String> children = client.getChildren().forPath(path);
            if (node == null) {
                throw new IllegalStateException("its node was deleted");
            }
            hold(mutex, node, before(mutex.node(), children, path), steps(timeout));
        } finally {
            mutex.release();
        }
    }

    /** Claims until the steps are over, or the lock is lost. */
    private static void hold(Mutex mutex, Stat node, String before, int steps) throws Exception {
        String hold = "\"hold\":[\"lock\"," + node.getCzxid() + "]";
        write(System.nanoTime(), "{\"holds\":{" + hold + ",\"session\":" + node.getEphemeralOwner()
            + ",\"node\":\"" + mutex.node() + "\"}}");
        write(System.nanoTime(), "{\"behind\":{" + hold + ",\"nodes\":[" + before + "]}}");
        for (int step = 0; step < steps; step++) {
            long asked = System.nanoTime();
            if (lost || !mutex.isAcquiredInThisProcess()) {
                write(asked, "{\"lost\":{" + hold + ",\"how\":\"LOST\"}}");
                return;
            }
            write(asked, "{\"yes\":{" + hold + ",\"after\":" + System.nanoTime() + "}}");
            Thread.sleep(3);
        }
        write(System.nanoTime(), "{\"releases\":{" + hold + ",\"how\":\"worked\"}}");
    }

    /** As many as those of hold.rs. */
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

    /** It tells its node, in which it writes its identity. */
    private static class Mutex extends InterProcessMutex {
        private final String identity;

        Mutex(CuratorFramework client, String path, String identity) {
            super(client, path);
            this.identity = identity;
        }

        String node() {
            return getLockPath();
        }

        @Override
        protected byte[] getLockNodeBytes() {
            return identity == null ? null : identity.getBytes(StandardCharsets.UTF_8);
        }
    }
}
