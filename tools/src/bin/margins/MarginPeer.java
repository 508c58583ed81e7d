import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.List;

import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.LeaderLatchListener;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.ExponentialBackoffRetry;

/**
 * Holders by Apache Curator's mutex, and candidates by its leader latch with the standard policy. Orders and events are those of
 * worker.rs. A mutex is lost when the connection's listener is notified of LOST, or when isAcquiredInThisProcess is false,
 * whichever is first; a latch by its listener, or when hasLeadership is false.
 */
public class MarginPeer {
    private static final List<Thread> threads = new ArrayList<>();
    private static final List<CuratorFramework> clients = new ArrayList<>();

    public static void main(String[] arguments) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] words = line.split(" ");
            if (words[0].equals("hold")) {
                Thread thread = new Thread(() -> hold(words));
                thread.setDaemon(true);
                thread.start();
                threads.add(thread);
            } else {
                for (Thread thread : threads) {
                    thread.interrupt();
                    thread.join();
                }
                clients.forEach(CuratorFramework::close);
                threads.clear();
                clients.clear();
            }
        }
        Runtime.getRuntime().halt(0);
    }

    private static void hold(String[] words) {
        try {
            CuratorFramework client = CuratorFrameworkFactory.builder()
                .connectString(words[3])
                .sessionTimeoutMs(Integer.parseInt(words[5]))
                .connectionTimeoutMs(Integer.parseInt(words[5]))
                .retryPolicy(new ExponentialBackoffRetry(100, 10))
                .ensembleTracker(false) // it finds the way round the proxies
                .build();
            synchronized (clients) {
                clients.add(client);
            }
            Belief belief = new Belief(words[1]);
            boolean mutex = words[2].equals("mutex");
            client.getConnectionStateListenable().addListener((unused, state) -> {
                if (state == ConnectionState.LOST && mutex) {
                    belief.notified(false);
                }
            });
            client.start();
            client.blockUntilConnected();
            if (mutex) {
                InterProcessMutex lock = new InterProcessMutex(client, words[4]);
                lock.acquire();
                belief.notified(true);
                while (lock.isAcquiredInThisProcess()) {
                    belief.seen();
                    Thread.sleep(2);
                }
                belief.notified(false);
            } else {
                LeaderLatch latch = new LeaderLatch(client, words[4], words[1]);
                latch.addListener(new LeaderLatchListener() {
                    @Override
                    public void isLeader() {
                        belief.notified(true);
                    }

                    @Override
                    public void notLeader() {
                        belief.notified(false);
                    }
                });
                latch.start();
                while (true) {
                    if (latch.hasLeadership()) {
                        belief.seen();
                    }
                    Thread.sleep(2);
                }
            }
        } catch (InterruptedException interrupted) {
            // All sessions end.
        } catch (Exception exception) {
            exception.printStackTrace();
        }
    }

    /** What the process knows of one holder. */
    private static class Belief {
        private final String number;
        private boolean holds;
        private long last;

        Belief(String number) {
            this.number = number;
        }

        synchronized void notified(boolean now) {
            if (now != holds) {
                say(now ? "Holds" : "Lost", now ? 0 : last);
                holds = now;
            }
            seen();
        }

        synchronized void seen() {
            if (holds) {
                last = System.nanoTime();
            }
        }

        private void say(String what, long more) {
            System.out.println(number + " " + what + " " + System.nanoTime() + " " + more);
            System.out.flush();
        }
    }
}
