// SPDX-License-Identifier: Apache-2.0

import java.util.concurrent.CountDownLatch;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.LeaderSelector;
import org.apache.curator.framework.recipes.leader.LeaderSelectorListenerAdapter;
import org.apache.curator.retry.RetryOneTime;
import org.apache.zookeeper.CreateMode;

/**
 * Candidates that use Apache Curator's elections.
 *
 * <p>Arguments: the address of a ZooKeeper server, {@code selector} or {@code latch}, the
 * election's path, the path of the marks, how many clients, how many terms each. Each client
 * has a session of its own, and is called selector0, selector1, … In each of its terms a
 * client creates two sequential nodes below the path of the marks, with the data {@code enter
 * <client>} and {@code leave <client>}.
 */
public final class Leaders {
    private static String marks;

    public static void main(String[] args) throws Exception {
        marks = args[3];
        Thread[] threads = new Thread[Integer.parseInt(args[4])];
        int terms = Integer.parseInt(args[5]);
        for (int i = 0; i < threads.length; i++) {
            String name = args[1] + i;
            threads[i] = new Thread(() -> run(args[0], args[1], args[2], name, terms), name);
            threads[i].start();
        }
        for (Thread t : threads) {
            t.join();
        }
    }

    private static void run(String server, String kind, String path, String name, int terms) {
        try (CuratorFramework client = CuratorFrameworkFactory.newClient(server, 10_000, 10_000, new RetryOneTime(100))) {
            client.start();
            client.blockUntilConnected();
            if (kind.equals("latch")) {
                latch(client, path, name, terms);
            } else {
                select(client, path, name, terms);
            }
        } catch (Exception e) {
            e.printStackTrace();
            System.exit(1);
        }
    }

    private static void latch(CuratorFramework client, String path, String name, int terms) throws Exception {
        for (int i = 0; i < terms; i++) {
            try (LeaderLatch latch = new LeaderLatch(client, path, name)) {
                latch.start();
                latch.await();
                lead(client, name);
            }
        }
    }

    private static void select(CuratorFramework client, String path, String name, int terms) throws Exception {
        CountDownLatch left = new CountDownLatch(terms);
        LeaderSelectorListenerAdapter listener = new LeaderSelectorListenerAdapter() {
            @Override
            public void takeLeadership(CuratorFramework client) throws Exception {
                if (left.getCount() > 0) {
                    lead(client, name);
                    left.countDown();
                }
            }
        };
        try (LeaderSelector selector = new LeaderSelector(client, path, listener)) {
            selector.setId(name);
            selector.autoRequeue();
            selector.start();
            left.await();
        }
    }

    private static void lead(CuratorFramework client, String name) throws Exception {
        for (String what : new String[] {"enter ", "leave "}) {
            client.create().withMode(CreateMode.PERSISTENT_SEQUENTIAL).forPath(marks + "/m", (what + name).getBytes());
        }
    }
}
