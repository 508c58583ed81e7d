import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.List;
import java.util.function.BooleanSupplier;

import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.RetryForever;

/**
 * What Apache Curator's mutex and leader latch believe. Arguments: connect string, a path, session timeouts in
 * milliseconds. For each line on standard input all of them are acquired anew under PATH/LINE, and whenever a belief
 * changes a line is written: "KIND TIMEOUT true|false".
 */
public class CuratorHolder {
    private static List<Thread> watchers = new ArrayList<>();
    private static List<CuratorFramework> clients = new ArrayList<>();

    public static void main(String[] arguments) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String round = input.readLine(); round != null; round = input.readLine()) {
            for (Thread watcher : watchers) {
                watcher.interrupt();
                watcher.join();
            }
            for (CuratorFramework client : clients) {
                client.close();
            }
            watchers = new ArrayList<>();
            clients = new ArrayList<>();
            for (int i = 2; i < arguments.length; i++) {
                int timeout = Integer.parseInt(arguments[i]);
                String path = arguments[1] + "/" + round;
                InterProcessMutex mutex = new InterProcessMutex(client(arguments[0], timeout), path + "-mutex-" + timeout);
                mutex.acquire();
                watch("mutex " + timeout, mutex::isAcquiredInThisProcess);
                LeaderLatch latch = new LeaderLatch(client(arguments[0], timeout), path + "-latch-" + timeout);
                latch.start();
                latch.await();
                watch("latch " + timeout, latch::hasLeadership);
            }
        }
        System.exit(0);
    }

    private static CuratorFramework client(String servers, int timeout) {
        CuratorFramework client = CuratorFrameworkFactory.builder()
            .connectString(servers)
            .sessionTimeoutMs(timeout)
            .connectionTimeoutMs(timeout)
            .retryPolicy(new RetryForever(100))
            .ensembleTracker(false) // it would find the way round the proxies
            .build();
        client.start();
        clients.add(client);
        return client;
    }

    private static void watch(String name, BooleanSupplier belief) {
        Thread watcher = new Thread(() -> {
            Boolean last = null;
            while (!Thread.interrupted()) {
                boolean now = belief.getAsBoolean();
                if (last == null || now != last) {
                    System.out.println(name + " " + now);
                    System.out.flush();
                    last = now;
                }
                try {
                    Thread.sleep(2);
                } catch (InterruptedException interrupted) {
                    return;
                }
            }
        });
        watcher.setDaemon(true);
        watcher.start();
        watchers.add(watcher);
    }
}
