import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import java.util.function.Consumer;

import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.ExponentialBackoffRetry;

public class Biller {
    private final CuratorFramework client;
    private final InterProcessMutex mutex;
    private final Consumer<BooleanSupplier> bill;
    private volatile boolean mayBill;
    private volatile boolean stopping;

    /** What `bill` is given is to be asked before each step: whether it may go on. */
    public Biller(String servers, Consumer<BooleanSupplier> bill) {
        this.bill = bill;
        client = CuratorFrameworkFactory.builder()
            .connectString(servers)
            .namespace("shop")
            .sessionTimeoutMs(10_000)
            .connectionTimeoutMs(5_000)
            .retryPolicy(new ExponentialBackoffRetry(1000, 3))
            .build();
        client.getConnectionStateListenable().addListener((client, state) -> {
            if (!state.isConnected()) {
                mayBill = false; // SUSPENDED: the mutex itself tells nobody
            }
        });
        mutex = new InterProcessMutex(client, "/locks/billing");
    }

    public void run() throws InterruptedException {
        client.start();
        while (!stopping) {
            try {
                // Before it is asked for: set afterwards, it would undo a SUSPENDED that came as acquire returned.
                // One that comes while it waits costs a round in which nothing is billed.
                mayBill = true;
                if (!mutex.acquire(1, TimeUnit.SECONDS)) {
                    continue; // another instance bills
                }
                try {
                    bill.accept(() -> mayBill);
                } finally {
                    mutex.release();
                }
            } catch (Exception failed) {
                System.err.println("no lock: " + failed);
                Thread.sleep(1000);
            }
        }
        client.close();
    }

    public void stop() {
        stopping = true;
    }
}
