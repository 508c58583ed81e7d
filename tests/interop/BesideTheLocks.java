import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;

import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.atomic.AtomicValue;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicLong;
import org.apache.curator.framework.recipes.barriers.DistributedBarrier;
import org.apache.curator.framework.recipes.cache.NodeCache;
import org.apache.curator.framework.recipes.nodes.GroupMember;
import org.apache.curator.framework.recipes.nodes.PersistentNode;
import org.apache.curator.retry.ExponentialBackoffRetry;
import org.apache.zookeeper.CreateMode;

/**
 * The recipes of Apache Curator that this crate does not have. Lines as of CuratorPeer. Each command has a thread of its own,
 * because barriers wait.
 */
public class BesideTheLocks {
    private static final Map<String, PersistentNode> nodes = new ConcurrentHashMap<>();
    private static final Map<String, GroupMember> members = new ConcurrentHashMap<>();
    private static CuratorFramework client;

    public static void main(String[] arguments) throws Exception {
        try (BufferedReader input = new BufferedReader(new InputStreamReader(System.in))) {
            for (String line = input.readLine(); line != null; line = input.readLine()) {
                String[] words = line.split(" ");
                new Thread(() -> Answers.answer(words, BesideTheLocks::obey)).start();
            }
        }
        Runtime.getRuntime().halt(0);
    }

    private static String obey(String[] words) throws Exception {
        String path = words[2];
        switch (words[1]) {
            case "connect":
                client = CuratorFrameworkFactory.newClient(path, new ExponentialBackoffRetry(100, 10));
                client.start();
                return client.blockUntilConnected(60, TimeUnit.SECONDS) ? "" : "no session";
            case "add":
                DistributedAtomicLong number =
                    new DistributedAtomicLong(client, path, new ExponentialBackoffRetry(10, 20));
                AtomicValue<Long> sum = number.add(Long.parseLong(words[3]));
                return sum.succeeded() ? String.valueOf(sum.postValue()) : "no";
            case "persist":
                byte[] data = words[3].getBytes(StandardCharsets.UTF_8);
                PersistentNode node = new PersistentNode(client, CreateMode.EPHEMERAL, false, path, data);
                node.start();
                nodes.put(path, node);
                return node.waitForInitialCreate(60, TimeUnit.SECONDS) ? "" : "no znode";
            case "unpersist":
                nodes.remove(path).close();
                return "";
            case "join":
                GroupMember member = new GroupMember(client, path, words[3], words[4].getBytes(StandardCharsets.UTF_8));
                member.start();
                members.put(path, member);
                return "";
            case "members":
                Map<String, byte[]> current = new TreeMap<>(members.get(path).getCurrentMembers());
                List<String> listed = new ArrayList<>();
                current.forEach((id, payload) -> listed.add(id + "=" + new String(payload, StandardCharsets.UTF_8)));
                return String.join(",", listed);
            case "leave":
                members.remove(path).close();
                return "";
            case "cached":
                try (NodeCache cache = new NodeCache(client, path)) {
                    cache.start(true);
                    return new String(cache.getCurrentData().getData(), StandardCharsets.UTF_8);
                }
            case "set-barrier":
                new DistributedBarrier(client, path).setBarrier();
                return "";
            case "remove-barrier":
                new DistributedBarrier(client, path).removeBarrier();
                return "";
            case "wait-on-barrier":
                long limit = Long.parseLong(words[3]);
                return new DistributedBarrier(client, path).waitOnBarrier(limit, TimeUnit.MILLISECONDS) ? "open" : "set";
            default:
                throw new IllegalArgumentException("unknown: " + words[1]);
        }
    }
}
