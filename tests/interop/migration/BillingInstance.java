import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.locks.LockSupport;

/**
 * An instance of the service of the migration page, around the page's Biller. It is spoken to as CuratorPeer is, and knows
 * "holds", what was billed so far, and "stop", which ends it in order and is answered the same way. With a second argument it
 * bills until it may not any more.
 */
public class BillingInstance {
    private static final Queue<String> holds = new ConcurrentLinkedQueue<>();

    public static void main(String[] arguments) throws Exception {
        Biller biller = new Biller(arguments[0], mayGoOn -> {
            long from = System.nanoTime();
            long last = from;
            do {
                LockSupport.parkNanos(ThreadLocalRandom.current().nextLong(4_000_000));
                long now = System.nanoTime();
                last = mayGoOn.getAsBoolean() ? now : last;
            } while (arguments.length > 1 && mayGoOn.getAsBoolean());
            holds.add(from + ":" + last);
        });
        Thread runs = new Thread(() -> {
            try {
                biller.run();
            } catch (InterruptedException never) {
                throw new IllegalStateException(never);
            }
        });
        runs.start();
        try (BufferedReader input = new BufferedReader(new InputStreamReader(System.in))) {
            for (String line = input.readLine(); line != null; line = input.readLine()) {
                String[] words = line.split(" ");
                if (words[1].equals("stop")) {
                    biller.stop();
                    runs.join();
                }
                System.out.println("> " + words[0] + " ok " + String.join(" ", holds));
            }
        }
        Runtime.getRuntime().halt(0);
    }
}
