import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.LeaderLatchListener;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.ExponentialBackoffRetry;

/**
 * Candidates with Apache Curator's LeaderLatch and its standard policy, each with a session of its own. Arguments: connect
 * string, path, session timeout in milliseconds, how many. A line for each event: "NUMBER WHAT NANOSECONDS 0", WHAT being
 * Leads, Lost, Suspended or Connected. Ends with its input.
 */
public class CuratorCandidates {
    public static void main(String[] arguments) throws Exception {
        int timeout = Integer.parseInt(arguments[2]);
        for (int i = 0; i < Integer.parseInt(arguments[3]); i++) {
            stand(i, arguments[0], arguments[1], timeout);
        }
        while (System.in.read() >= 0) {
            // Nothing is asked.
        }
        Runtime.getRuntime().halt(0);
    }

    private static void stand(int number, String servers, String path, int timeout) throws Exception {
        CuratorFramework client = CuratorFrameworkFactory.builder()
            .connectString(servers)
            .sessionTimeoutMs(timeout)
            .connectionTimeoutMs(timeout)
            .retryPolicy(new ExponentialBackoffRetry(100, 10))
            .ensembleTracker(false) // it would find the way round the proxies
            .build();
        client.getConnectionStateListenable().addListener((unused, state) -> {
            if (state == ConnectionState.SUSPENDED) {
                say(number, "Suspended");
            } else if (state == ConnectionState.RECONNECTED) {
                say(number, "Connected");
            }
        });
        client.start();
        client.blockUntilConnected();
        LeaderLatch latch = new LeaderLatch(client, path, "curator-" + number);
        latch.addListener(new LeaderLatchListener() {
            @Override
            public void isLeader() {
                say(number, "Leads");
            }

            @Override
            public void notLeader() {
                say(number, "Lost");
            }
        });
        latch.start();
    }

    private static synchronized void say(int number, String what) {
        System.out.println(number + " " + what + " " + System.nanoTime() + " 0");
        System.out.flush();
    }
}
