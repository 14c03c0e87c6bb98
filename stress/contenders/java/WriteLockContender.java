// SPDX-License-Identifier: Apache-2.0

import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.ReentrantLock;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.WatchedEvent;
import org.apache.zookeeper.Watcher;
import org.apache.zookeeper.ZooDefs;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.recipes.lock.LockListener;
import org.apache.zookeeper.recipes.lock.WriteLock;

/**
 * ZooKeeper's own recipe WriteLock as a contender. A holder that listens stops when the session's
 * watcher says Disconnected or Expired. After the end of a session there is a new one, and what
 * waited with the old one has failed.
 */
public final class WriteLockContender {
    private static String servers;
    private static int timeout;
    private static volatile Session session;

    /**
     * Within the process one client at a time uses a lock. A WriteLock takes any node of its session
     * in the directory for its own, so two of one session would not exclude each other.
     */
    private static final Map<String, ReentrantLock> turns = new ConcurrentHashMap<>();

    public static void main(String[] args) throws Exception {
        servers = args[1];
        timeout = Integer.parseInt(args[2]);
        session = new Session();
        session.begun.get(50, TimeUnit.SECONDS);
        Protocol.obey(args[0], Client::new);
        session.zooKeeper.close();
        System.exit(0);
    }

    /** A session, and what its watcher is told. */
    private static final class Session implements Watcher {
        final CompletableFuture<Void> begun = new CompletableFuture<>();
        final CompletableFuture<Void> ended = new CompletableFuture<>();
        final ZooKeeper zooKeeper;

        Session() throws Exception {
            synchronized (this) { // the first event waits for the field
                zooKeeper = new ZooKeeper(servers, timeout, this);
            }
        }

        @Override
        public synchronized void process(WatchedEvent event) {
            switch (event.getState()) {
                case SyncConnected:
                    if (event.getType() == Event.EventType.None) {
                        Protocol.connected(zooKeeper.getSessionId());
                        begun.complete(null);
                    }
                    break;
                case Disconnected:
                    Protocol.disconnected(false);
                    break;
                case Expired:
                    Protocol.disconnected(true);
                    try {
                        session = new Session();
                    } catch (Exception e) {
                        System.err.println("contender: " + e);
                    }
                    ended.completeExceptionally(new KeeperException.SessionExpiredException());
                    break;
                default:
            }
        }
    }

    private static final class Client implements Protocol.Client {
        private ReentrantLock turn;
        private WriteLock held;

        @Override
        public long acquire(String path, boolean shared) throws Exception {
            if (shared) {
                throw new UnsupportedOperationException("a WriteLock has no shared holders");
            }
            turn = turns.computeIfAbsent(path, p -> new ReentrantLock(true));
            turn.lock();
            Session by = session;
            CompletableFuture<Object> acquired = new CompletableFuture<>();
            held = new WriteLock(by.zooKeeper, path, null, new LockListener() {
                @Override
                public void lockAcquired() {
                    acquired.complete(null);
                }

                @Override
                public void lockReleased() {}
            });
            try {
                make(by.zooKeeper, path);
                held.lock();
                CompletableFuture.anyOf(acquired, by.ended).get();
                return by.zooKeeper.getSessionId();
            } catch (Exception e) {
                try {
                    release();
                } catch (Exception again) {
                    e.addSuppressed(again);
                }
                throw e;
            }
        }

        /** Makes the directory, whose parents the WriteLock does not make. */
        private static void make(ZooKeeper zooKeeper, String path) throws Exception {
            for (int end = path.indexOf('/', 1); end >= 0; end = path.indexOf('/', end + 1)) {
                String parent = path.substring(0, end);
                if (zooKeeper.exists(parent, false) != null) {
                    continue;
                }
                try {
                    zooKeeper.create(parent, new byte[0], ZooDefs.Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
                } catch (KeeperException.NodeExistsException e) {
                    // another process has made it
                }
            }
        }

        /** Closes the lock, too: a watch of its that fires later would have it queue again. */
        @Override
        public void release() throws Exception {
            String node = held.getId();
            try {
                held.unlock();
            } catch (RuntimeException e) {
                if (!(e.getCause() instanceof KeeperException.ConnectionLossException)) {
                    throw e;
                }
                delete(held.getZookeeper(), node);
            } finally {
                held.close();
                turn.unlock();
            }
        }

        /**
         * Deletes a node of which unlock does not know whether it has. It asks until ZooKeeper has
         * answered: the node would stay with the session, and all would wait for it.
         */
        private static void delete(ZooKeeper zooKeeper, String node) throws Exception {
            while (true) {
                try {
                    Thread.sleep(100);
                    zooKeeper.delete(node, -1);
                    return;
                } catch (KeeperException.ConnectionLossException e) {
                    // once more
                } catch (KeeperException.NoNodeException | KeeperException.SessionExpiredException e) {
                    return;
                }
            }
        }
    }
}
