// SPDX-License-Identifier: Apache-2.0

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.ExponentialBackoffRetry;

/**
 * Apache Curator's InterProcessMutex as a contender of the stress harness, whose protocol
 * docs/testing.md has. A client is a thread. With the name "curator-listening" a holder takes its
 * lock for lost when the connection is suspended, as Curator's documentation advises; with "curator"
 * it hears of no loss.
 */
public final class Contender {
    private static CuratorFramework curator;
    private static boolean listening;

    /** The clients that have a lock. */
    private static final Map<String, Boolean> holders = new ConcurrentHashMap<>();

    /** The session that the harness has been told of. Only the listener's thread uses it. */
    private static long session;

    public static void main(String[] args) throws Exception {
        listening = args[0].endsWith("-listening");
        curator = CuratorFrameworkFactory.builder()
                .connectString(args[1])
                .sessionTimeoutMs(Integer.parseInt(args[2]))
                .retryPolicy(new ExponentialBackoffRetry(1000, 3))
                .build();
        curator.getConnectionStateListenable().addListener((client, state) -> changed(state));
        curator.start();
        if (!curator.blockUntilConnected(50, TimeUnit.SECONDS)) {
            throw new IllegalStateException("no session within 50 s");
        }
        say("ready");
        Map<String, BlockingQueue<String[]>> clients = new ConcurrentHashMap<>();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = in.readLine()) != null; ) {
            String[] words = line.split(" ");
            clients.computeIfAbsent(words[0], Contender::start).add(words);
        }
        curator.close();
        System.exit(0); // threads may wait for locks still
    }

    private static BlockingQueue<String[]> start(String client) {
        BlockingQueue<String[]> orders = new LinkedBlockingQueue<>();
        Thread thread = new Thread(() -> serve(client, orders));
        thread.setDaemon(true);
        thread.start();
        return orders;
    }

    /** Does what a client is told, in its thread: to Curator that is the owner. */
    private static void serve(String client, BlockingQueue<String[]> orders) {
        Map<String, InterProcessMutex> locks = new ConcurrentHashMap<>();
        while (true) {
            try {
                String[] words = orders.take();
                InterProcessMutex lock = locks.computeIfAbsent(words[2], path -> new InterProcessMutex(curator, path));
                if (words[1].equals("acquire")) {
                    lock.acquire();
                    holders.put(client, true);
                    say(client + " granted session=0x" + Long.toHexString(id()));
                } else {
                    holders.remove(client);
                    lock.release();
                    say(client + " released");
                }
            } catch (Exception e) {
                say(client + " error " + e);
            }
        }
    }

    private static long id() throws Exception {
        return curator.getZookeeperClient().getZooKeeper().getSessionId();
    }

    /** Tells of the session, and of locks that are taken for lost. */
    private static void changed(ConnectionState state) {
        try {
            switch (state) {
                case CONNECTED:
                case RECONNECTED:
                    if (session == id()) {
                        say("session 0x" + Long.toHexString(session) + " resumed");
                    } else {
                        session = id();
                        say("session 0x" + Long.toHexString(session) + " began");
                    }
                    break;
                case SUSPENDED:
                case LOST:
                    lose();
                    say("session 0x" + Long.toHexString(session) + (state == ConnectionState.LOST ? " ended" : " suspended"));
                    break;
                default:
            }
        } catch (Exception e) {
            System.err.println("contender: " + e);
        }
    }

    private static void lose() {
        if (listening) {
            long now = System.nanoTime();
            holders.keySet().forEach(client -> say(client + " lost at=" + now));
        }
    }

    private static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }
}
