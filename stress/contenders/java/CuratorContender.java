// SPDX-License-Identifier: Apache-2.0

import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.ExponentialBackoffRetry;

/**
 * Apache Curator's InterProcessMutex as a contender, or its InterProcessReadWriteLock if the name has
 * "-rw" in it. A holder that listens stops when the connection is suspended, as Curator's
 * documentation advises. The retry policy is that of the documentation, too, and the connection
 * timeout is no longer than the session's, of which Curator warns.
 */
public final class CuratorContender {
    private static CuratorFramework curator;

    public static void main(String[] args) throws Exception {
        int timeout = Integer.parseInt(args[2]);
        curator = CuratorFrameworkFactory.builder()
                .connectString(args[1])
                .sessionTimeoutMs(timeout)
                .connectionTimeoutMs(Math.min(timeout, 15_000)) // 15 s is the default
                .retryPolicy(new ExponentialBackoffRetry(1000, 3))
                .build();
        curator.getConnectionStateListenable().addListener((client, state) -> changed(state));
        curator.start();
        if (!curator.blockUntilConnected(50, TimeUnit.SECONDS)) {
            throw new IllegalStateException("no session within 50 s");
        }
        boolean readWrite = args[0].contains("-rw");
        Protocol.obey(args[0], () -> new Client(readWrite));
        curator.close();
        System.exit(0);
    }

    private static void changed(ConnectionState state) {
        switch (state) {
            case CONNECTED:
            case RECONNECTED:
                Protocol.connected(session());
                break;
            case SUSPENDED:
            case LOST:
                Protocol.disconnected(state == ConnectionState.LOST);
                break;
            default:
        }
    }

    /**
     * Returns the session, or 0 if it is unknown. Curator throws here what has failed in the
     * background, up to ten such failures, and that must not make a failure of a lock that is held.
     */
    private static long session() {
        for (int i = 0; i <= 10; i++) {
            try {
                return curator.getZookeeperClient().getZooKeeper().getSessionId();
            } catch (Exception e) {
                System.err.println("contender: " + e);
            }
        }
        return 0;
    }

    /** A client is a thread, which to Curator is the owner of a lock. */
    private static final class Client implements Protocol.Client {
        private final boolean readWrite;
        private final Map<String, InterProcessMutex> mutexes = new HashMap<>();
        private final Map<String, InterProcessReadWriteLock> locks = new HashMap<>();
        private InterProcessLock held;

        Client(boolean readWrite) {
            this.readWrite = readWrite;
        }

        @Override
        public long acquire(String path, boolean shared) throws Exception {
            InterProcessLock lock = lock(path, shared);
            lock.acquire();
            held = lock;
            return session();
        }

        private InterProcessLock lock(String path, boolean shared) {
            if (!readWrite) {
                if (shared) {
                    throw new UnsupportedOperationException("an InterProcessMutex has no shared holders");
                }
                return mutexes.computeIfAbsent(path, p -> new InterProcessMutex(curator, p));
            }
            InterProcessReadWriteLock lock = locks.computeIfAbsent(path, p -> new InterProcessReadWriteLock(curator, p));
            return shared ? lock.readLock() : lock.writeLock();
        }

        @Override
        public void release() throws Exception {
            held.release();
        }
    }
}
