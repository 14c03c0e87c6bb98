// SPDX-License-Identifier: Apache-2.0

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Map;
import java.util.HashMap;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.locks.InterProcessLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreMutex;
import org.apache.curator.framework.recipes.locks.Revoker;
import org.apache.curator.retry.RetryOneTime;

/**
 * Contenders that use Apache Curator's locks, told by a test what to do.
 *
 * <p>The first argument is the address of a ZooKeeper server, a second one the
 * session timeout in milliseconds, instead of 10 s. Each line of the input is
 * {@code client command argument...}; a client is a session and a thread of its
 * own, which begins with its first line, and carries out its commands one after
 * the other. Each line of the output is {@code client answer...}. The end of the
 * input ends the program.
 *
 * <ul>
 *   <li>{@code open path}: the lock that the following commands are about.
 *   <li>{@code acquire kind}: waits for it, and answers {@code acquired kind};
 *       kind is mutex, read, write, or latch for a LeaderLatch: its leader has acquired it.
 *   <li>{@code try kind}: does not wait; answers {@code acquired kind} or
 *       {@code refused kind}. {@code try kind ms} waits for so many milliseconds.
 *   <li>{@code release kind}: answers {@code released kind}.
 *   <li>{@code loop kind times}: acquires and releases so often. Inside, it says
 *       {@code enter kind} and {@code leave kind}, and goes on after each when it
 *       reads {@code ok}. Answers {@code done kind} at the end.
 *   <li>{@code revocable kind}: makes it revocable, for the next acquisition only, and
 *       answers {@code revocable kind}; says {@code revoked kind} when it is revoked.
 *   <li>{@code revoke path}: revokes the lock that the node at path holds; answers
 *       {@code revoking path}.
 *   <li>{@code lead path}: becomes the leader by a LeaderLatch; answers
 *       {@code leads path}.
 *   <li>{@code enter path}: acquires an InterProcessSemaphoreMutex; answers
 *       {@code inside path}.
 * </ul>
 */
public final class Contenders {
    private static final Map<String, Contenders> ALL = new HashMap<>();

    private final String name;
    private final String server;
    private final int timeout;
    private final BlockingQueue<String> lines = new LinkedBlockingQueue<>();
    private final Map<String, InterProcessLock> locks = new HashMap<>();

    private Contenders(String name, String server, int timeout) {
        this.name = name;
        this.server = server;
        this.timeout = timeout;
    }

    public static void main(String[] args) throws Exception {
        int timeout = args.length > 1 ? Integer.parseInt(args[1]) : 10_000;
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = in.readLine()) != null; ) {
            String[] words = line.split(" ", 2);
            Contenders c = ALL.get(words[0]);
            if (c == null) {
                c = new Contenders(words[0], args[0], timeout);
                ALL.put(words[0], c);
                Thread thread = new Thread(c::run, words[0]);
                thread.setDaemon(true);
                thread.start();
            }
            c.lines.add(words[1]);
        }
        System.exit(0);
    }

    /** A LeaderLatch as a lock, which the leader holds. */
    private static final class Latch implements InterProcessLock {
        private final CuratorFramework client;
        private final String path;
        private final String id;
        private LeaderLatch latch;

        private Latch(CuratorFramework client, String path, String id) {
            this.client = client;
            this.path = path;
            this.id = id;
        }

        @Override
        public void acquire() throws Exception {
            latch = new LeaderLatch(client, path, id);
            latch.start();
            latch.await();
        }

        @Override
        public boolean acquire(long time, TimeUnit unit) {
            throw new UnsupportedOperationException();
        }

        @Override
        public void release() throws Exception {
            latch.close();
        }

        @Override
        public boolean isAcquiredInThisProcess() {
            return latch.hasLeadership();
        }
    }

    private void say(String answer) {
        synchronized (System.out) {
            System.out.println(name + " " + answer);
            System.out.flush();
        }
    }

    private void run() {
        try (CuratorFramework client = CuratorFrameworkFactory.newClient(server, timeout, timeout, new RetryOneTime(100))) {
            client.start();
            client.blockUntilConnected();
            while (true) {
                obey(client, lines.take().split(" "));
            }
        } catch (Exception e) {
            say("failed " + e);
        }
    }

    private void obey(CuratorFramework client, String[] words) throws Exception {
        String kind = words[1];
        switch (words[0]) {
            case "open":
                InterProcessReadWriteLock rw = new InterProcessReadWriteLock(client, kind);
                locks.put("mutex", new InterProcessMutex(client, kind));
                locks.put("read", rw.readLock());
                locks.put("write", rw.writeLock());
                locks.put("latch", new Latch(client, kind, name));
                say("opened");
                break;
            case "acquire":
                locks.get(kind).acquire();
                say("acquired " + kind);
                break;
            case "try":
                long wait = words.length > 2 ? Long.parseLong(words[2]) : 0;
                say((locks.get(kind).acquire(wait, TimeUnit.MILLISECONDS) ? "acquired " : "refused ") + kind);
                break;
            case "release":
                locks.get(kind).release();
                say("released " + kind);
                break;
            case "loop":
                for (int i = Integer.parseInt(words[2]); i > 0; i--) {
                    locks.get(kind).acquire();
                    say("enter " + kind);
                    lines.take();
                    Thread.sleep(1);
                    say("leave " + kind);
                    lines.take();
                    locks.get(kind).release();
                }
                say("done " + kind);
                break;
            case "revocable":
                ((InterProcessMutex) locks.get(kind)).makeRevocable(lock -> say("revoked " + kind));
                say("revocable " + kind);
                break;
            case "revoke":
                Revoker.attemptRevoke(client, kind);
                say("revoking " + kind);
                break;
            case "lead":
                LeaderLatch latch = new LeaderLatch(client, kind);
                latch.start();
                latch.await();
                say("leads " + kind);
                break;
            case "enter":
                new InterProcessSemaphoreMutex(client, kind).acquire();
                say("inside " + kind);
                break;
            default:
                throw new IllegalArgumentException(words[0]);
        }
    }
}
