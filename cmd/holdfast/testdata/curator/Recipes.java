// SPDX-License-Identifier: Apache-2.0

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.concurrent.CountDownLatch;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.barriers.DistributedBarrier;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.LeaderSelector;
import org.apache.curator.framework.recipes.leader.LeaderSelectorListenerAdapter;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.nodes.GroupMember;
import org.apache.curator.framework.recipes.queue.SimpleDistributedQueue;
import org.apache.curator.framework.recipes.shared.SharedCount;
import org.apache.curator.retry.RetryOneTime;

/**
 * One process that has something of each of Apache Curator's recipes, so that a test can look
 * at the nodes.
 *
 * <p>The arguments are the address of a ZooKeeper server and the path below which the recipes
 * are. It says {@code all there} once they are there, and keeps them until its input ends.
 */
public final class Recipes {
    public static void main(String[] args) throws Exception {
        String root = args[1];
        try (CuratorFramework client = CuratorFrameworkFactory.newClient(args[0], 10_000, 10_000, new RetryOneTime(100))) {
            client.start();
            client.blockUntilConnected();

            for (String id : new String[] {"app-7", "app-8"}) {
                LeaderLatch latch = new LeaderLatch(client, root + "/latch", id);
                latch.start();
                if (id.equals("app-7")) {
                    latch.await();
                }
            }

            CountDownLatch leads = new CountDownLatch(1);
            LeaderSelector selector = new LeaderSelector(client, root + "/selector", new LeaderSelectorListenerAdapter() {
                @Override
                public void takeLeadership(CuratorFramework c) throws InterruptedException {
                    leads.countDown();
                    Thread.sleep(Long.MAX_VALUE); // until the client closes
                }
            });
            selector.setId("app-9");
            selector.start();
            leads.await();

            new InterProcessMutex(client, root + "/mutex").acquire();

            SharedCount permits = new SharedCount(client, root + "/shared/permits", 3);
            permits.start();
            new InterProcessSemaphoreV2(client, root + "/shared", permits).acquire(2);
            new InterProcessSemaphoreV2(client, root + "/plain", 3).acquire();

            SimpleDistributedQueue queue = new SimpleDistributedQueue(client, root + "/queue");
            queue.offer("one".getBytes());
            queue.offer("three".getBytes());

            GroupMember member = new GroupMember(client, root + "/group", "w1", "10.0.0.1:80".getBytes());
            member.start();
            while (client.checkExists().forPath(root + "/group/w1") == null) {
                Thread.sleep(20);
            }
            new DistributedBarrier(client, root + "/barrier").setBarrier();

            while (client.getChildren().forPath(root + "/latch").size() < 2) {
                Thread.sleep(20);
            }
            System.out.println("all there");
            System.out.flush();
            BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
            while (in.readLine() != null) {
            }
        }
        System.exit(0);
    }
}
