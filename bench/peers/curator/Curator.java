// SPDX-License-Identifier: Apache-2.0

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.locks.LockSupport;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessLock;
import org.apache.curator.framework.recipes.locks.InterProcessMultiLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.queue.SimpleDistributedQueue;
import org.apache.curator.retry.ExponentialBackoffRetry;

/**
 * Apache Curator's locks as a subject of the benchmarks: InterProcessMutex, and for
 * read locks that of InterProcessReadWriteLock, and InterProcessMultiLock for several at
 * once. Its queue is SimpleDistributedQueue, the only one that is asked for elements; an
 * element of it is gone once it is taken.
 *
 * <p>It reads jobs from its input and writes results to its output, one line of JSON
 * each, and measures as the subjects in Go do; see the Go package bench/internal/work, of
 * whose loops these are a translation.
 */
public final class Curator {
    /** A session is a CuratorFramework, a worker a thread. */
    private static final int SESSION_MILLIS = 10_000, OPEN_SECONDS = 30;

    /** How long a job may go on after it was measured. */
    private static final long GRACE_SECONDS = 60;

    /** How many waits a result has at most. */
    private static final int MAX_WAITS = 5000;

    /** How many pairs are made between two looks at the stage. */
    private static final int BATCH = 1000;

    public static void main(String[] args) throws IOException {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = in.readLine()) != null; ) {
            System.out.println(answer(line));
            System.out.flush();
        }
        System.exit(0); // a thread of a job that failed may hang still
    }

    private static String answer(String line) {
        try {
            Job job = new Job(line);
            switch (job.text("work")) {
                case "hello":
                    return "{\"version\":" + quoted(version()) + "}";
                case "contend":
                    return new Run(job, false).result();
                case "line":
                    return new Run(job, false).line();
                case "drain":
                    return new Run(job, false).drain();
                case "keep":
                    return keep(job);
                case "succeed":
                    return new Run(job, false).succeed();
                case "reenter":
                    return new Run(job, true).result();
                default:
                    return "{\"unsupported\":" + quoted("not supported: work " + job.text("work")) + "}";
            }
        } catch (Throwable e) {
            return "{\"err\":" + quoted(e.toString()) + "}";
        }
    }

    /** Takes the locks, and keeps them until this process ends. */
    private static String keep(Job job) throws Exception {
        CuratorFramework client = Run.client(job);
        client.start();
        if (!client.blockUntilConnected(OPEN_SECONDS, TimeUnit.SECONDS)) {
            throw new IOException("no session at " + job.text("server") + " within " + OPEN_SECONDS + " s");
        }
        for (int i = 0; i < job.number("locks"); i++) {
            new InterProcessMutex(client, job.lock(i)).acquire();
        }
        return "{\"allocs\":-1}";
    }

    private static String version() throws IOException {
        Properties pom = new Properties();
        String name = "/META-INF/maven/org.apache.curator/curator-recipes/pom.properties";
        try (InputStream in = InterProcessMutex.class.getResourceAsStream(name)) {
            if (in != null) {
                pom.load(in);
            }
        }
        return "Curator " + pom.getProperty("version", "(version unknown)")
                + " InterProcessMutex on Java " + System.getProperty("java.version");
    }

    /** What is asked for: one object of strings, numbers and truth values. */
    private static final class Job {
        private static final Pattern FIELD = Pattern.compile("\"(\\w+)\"\\s*:\\s*(?:\"([^\"\\\\]*)\"|(-?\\d+|true|false))\\s*[,}]");

        private final Map<String, String> fields = new HashMap<>();

        Job(String line) {
            for (Matcher m = FIELD.matcher(line); m.find(); ) {
                fields.put(m.group(1), m.group(2) != null ? m.group(2) : m.group(3));
            }
        }

        /** The text of a field; a string must not need escapes. */
        String text(String name) {
            String value = fields.get(name);
            if (value == null) {
                throw new IllegalArgumentException("the job has no " + name);
            }
            return value;
        }

        int number(String name) {
            return Integer.parseInt(text(name));
        }

        String lock(int i) {
            return text("dir") + "/lock-" + i;
        }
    }

    private static String quoted(String s) {
        StringBuilder b = new StringBuilder("\"");
        for (char c : s.toCharArray()) {
            if (c == '"' || c == '\\') {
                b.append('\\').append(c);
            } else if (c < ' ') {
                b.append(String.format("\\u%04x", (int) c));
            } else {
                b.append(c);
            }
        }
        return b.append('"').toString();
    }

    /** Thread.sleep of this Java sleeps for whole milliseconds. */
    private static void park(long nanos) {
        long end = System.nanoTime() + nanos;
        for (long left = nanos; left > 0; left = end - System.nanoTime()) {
            LockSupport.parkNanos(left);
        }
    }

    /** An array of times in microseconds, of times in nanoseconds. */
    private static String micros(List<Long> nanos) {
        StringBuilder json = new StringBuilder("[");
        for (int i = 0; i < nanos.size(); i++) {
            json.append(i == 0 ? "" : ",").append(String.format(Locale.ROOT, "%.3f", nanos.get(i) / 1e3));
        }
        return json.append(']').toString();
    }

    private enum Stage { WARMING, MEASURING, OVER }

    /** One job. */
    private static final class Run {
        private final Job job;
        private final boolean reenter, read;
        private final long end; // of System.nanoTime: the workers have to be done
        private volatile Stage stage = Stage.WARMING;
        private final AtomicReference<Throwable> failure = new AtomicReference<>(); // the first one
        private final CountDownLatch failed = new CountDownLatch(1);

        Run(Job job, boolean reenter) {
            this.job = job;
            this.reenter = reenter;
            this.read = Boolean.parseBoolean(job.text("read"));
            long millis = job.number("warmupMillis") + job.number("measureMillis");
            this.end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(millis) + TimeUnit.SECONDS.toNanos(GRACE_SECONDS);
        }

        String result() throws Exception {
            return within(this::measure);
        }

        String line() throws Exception {
            return within(this::queue);
        }

        String drain() throws Exception {
            return within(this::takeAll);
        }

        String succeed() throws Exception {
            return within(this::succeed);
        }

        static CuratorFramework client(Job job) {
            return CuratorFrameworkFactory.newClient(
                    job.text("server"), SESSION_MILLIS, SESSION_MILLIS, new ExponentialBackoffRetry(1000, 3));
        }

        private interface Work {
            String in(List<CuratorFramework> sessions) throws Exception;
        }

        /** Does work in the job's sessions. */
        private String within(Work work) throws Exception {
            List<CuratorFramework> sessions = new ArrayList<>();
            try {
                int n = reenter ? 1 : job.number("sessions");
                for (int i = 0; i < n; i++) { // it connects while the next one is made
                    CuratorFramework client = client(job);
                    sessions.add(client);
                    client.start();
                }
                for (CuratorFramework client : sessions) {
                    if (!client.blockUntilConnected(OPEN_SECONDS, TimeUnit.SECONDS)) {
                        throw new IOException("no session at " + job.text("server") + " within " + OPEN_SECONDS + " s");
                    }
                }
                return work.in(sessions);
            } finally {
                close(sessions);
            }
        }

        /** Kills the process that keeps a lock, and waits for it: for one lock only. */
        private String succeed(List<CuratorFramework> sessions) throws Exception {
            if (job.number("locks") != 1 || !job.text("death").equals("SIGKILL")) {
                return "{\"unsupported\":\"only for one lock and SIGKILL\"}";
            }
            InterProcessMutex lock = new InterProcessMutex(sessions.get(0), job.lock(0));
            AtomicLong killed = new AtomicLong();
            Thread killer = new Thread(() -> {
                LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(job.number("queueMillis")));
                killed.set(System.nanoTime());
                ProcessHandle.of(job.number("kill")).ifPresent(ProcessHandle::destroyForcibly);
            });
            killer.start();
            lock.acquire();
            double seconds = (System.nanoTime() - killed.get()) / 1e9;
            killer.join();
            lock.release();
            return "{\"entries\":1,\"seconds\":" + seconds + ",\"waits\":[" + seconds * 1e6 + "],\"allocs\":-1}";
        }

        /** Closes sessions, all at once, since each waits for the end of its connection. */
        private static void close(List<CuratorFramework> sessions) throws InterruptedException {
            List<Thread> closers = new ArrayList<>();
            for (CuratorFramework client : sessions) {
                Thread closer = new Thread(client::close);
                closer.start();
                closers.add(closer);
            }
            for (Thread closer : closers) {
                closer.join();
            }
        }

        private String measure(List<CuratorFramework> sessions) throws Exception {
            int locks = job.number("locks");
            AtomicInteger[] holders = new AtomicInteger[Math.max(locks, 1)];
            Arrays.setAll(holders, i -> new AtomicInteger());
            List<Worker> workers = new ArrayList<>();
            for (CuratorFramework client : sessions) {
                for (int i = 0; i < job.number("workers"); i++) {
                    // Only the thread that holds a lock can take it again, so where
                    // that is measured each has a lock of its own.
                    workers.add(reenter
                            ? new Reenterer(this, locker(client, job.lock(i)))
                            : new Contender(this, contended(client, i % locks), holders[i % locks]));
                }
            }
            for (Worker w : workers) {
                w.start();
            }
            double seconds = clock();
            for (Worker w : workers) {
                join(w);
            }
            if (failure.get() != null) {
                for (Worker w : workers) {
                    w.interrupt(); // waits for what will never be released
                }
                throw new Exception(failure.get());
            }
            long entries = 0, total = 0, fewest = Long.MAX_VALUE, most = 0;
            for (Worker w : workers) {
                entries += w.entries;
                total += w.total;
                fewest = Math.min(fewest, w.entries);
                most = Math.max(most, w.entries);
            }
            StringBuilder json = new StringBuilder();
            json.append("{\"entries\":").append(entries).append(",\"seconds\":").append(seconds);
            json.append(",\"total\":").append(total);
            if (!reenter) {
                json.append(",\"fewest\":").append(fewest).append(",\"most\":").append(most);
                json.append(",\"waits\":").append(Contender.sample(workers));
            }
            return json.append(",\"allocs\":-1}").toString();
        }

        /** Lets the sessions take all elements of a queue. */
        private String takeAll(List<CuratorFramework> sessions) throws Exception {
            int elements = job.number("elements");
            List<SimpleDistributedQueue> queues = new ArrayList<>();
            for (CuratorFramework client : sessions) {
                queues.add(new SimpleDistributedQueue(client, job.text("dir") + "/queue"));
            }
            for (int i = 0; i < elements; i++) {
                queues.get(0).offer(new byte[100]);
            }
            AtomicInteger left = new AtomicInteger(elements);
            List<Thread> takers = new ArrayList<>();
            long begin = System.nanoTime();
            for (SimpleDistributedQueue queue : queues) {
                Thread t = new Thread(() -> {
                    try {
                        while (left.getAndDecrement() > 0) {
                            queue.take();
                        }
                    } catch (Throwable e) {
                        fail(e);
                    }
                });
                t.setDaemon(true);
                takers.add(t);
                t.start();
            }
            for (Thread t : takers) {
                while (t.isAlive() && failure.get() == null) {
                    t.join(50);
                }
            }
            if (failure.get() != null) {
                throw new Exception(failure.get());
            }
            double seconds = (System.nanoTime() - begin) / 1e9;
            return "{\"entries\":" + elements + ",\"total\":" + elements + ",\"seconds\":" + seconds + ",\"allocs\":-1}";
        }

        /** Lets the sessions queue, and each in turn hold the lock, until the time is over. */
        private String queue(List<CuratorFramework> sessions) throws Exception {
            List<InterProcessLock> locks = new ArrayList<>();
            for (CuratorFramework client : sessions) {
                locks.add(locker(client, job.lock(0)));
            }
            long over = end - TimeUnit.SECONDS.toNanos(GRACE_SECONDS), sum = 0, total = 0;
            List<Long> gaps = new ArrayList<>();
            for (int n = 0; n < 2 || System.nanoTime() - over < 0; n++) {
                long[] once = queueOnce(locks);
                total += locks.size();
                for (int i = 1; i < once.length && n > 0; i++) { // the first time is not measured
                    gaps.add(once[i]);
                    sum += once[i];
                }
            }
            StringBuilder json = new StringBuilder();
            json.append("{\"entries\":").append(gaps.size()).append(",\"seconds\":").append(sum / 1e9);
            json.append(",\"total\":").append(total);
            List<Long> kept = gaps.subList(Math.max(0, gaps.size() - MAX_WAITS), gaps.size());
            return json.append(",\"waits\":").append(micros(kept)).append(",\"allocs\":-1}").toString();
        }

        /** Returns the times from a call of release to the next grant; the first has none. */
        private long[] queueOnce(List<InterProcessLock> locks) throws Exception {
            AtomicInteger holders = new AtomicInteger();
            AtomicLong released = new AtomicLong();
            CountDownLatch taken = new CountDownLatch(1);
            long hold = TimeUnit.MICROSECONDS.toNanos(job.number("holdMicros"));
            long queue = TimeUnit.MILLISECONDS.toNanos(job.number("queueMillis"));
            long[] gaps = new long[locks.size()];
            List<Thread> turns = new ArrayList<>();
            for (int i = 0; i < gaps.length; i++) {
                int turn = i;
                Thread t = new Thread(() -> {
                    try {
                        if (turn > 0) {
                            taken.await();
                        }
                        locks.get(turn).acquire();
                        gaps[turn] = System.nanoTime() - released.get();
                        taken.countDown();
                        if (holders.incrementAndGet() != 1) {
                            throw new IllegalStateException("two sessions hold the lock");
                        }
                        park(turn == 0 ? queue + hold : hold);
                        holders.decrementAndGet();
                        released.set(System.nanoTime());
                        locks.get(turn).release();
                    } catch (Throwable e) {
                        fail(e);
                    }
                });
                t.setDaemon(true);
                turns.add(t);
                t.start();
            }
            for (Thread t : turns) {
                join(t);
            }
            if (failure.get() != null) {
                for (Thread t : turns) {
                    t.interrupt();
                }
                throw new Exception(failure.get());
            }
            return gaps;
        }

        /**
         * What one worker takes the lock with. Each has its own: those that wait by
         * one InterProcessMutex are all woken whenever any of them is, which would
         * make Curator slower than it has to be.
         */
        private InterProcessLock locker(CuratorFramework client, String path) {
            return read ? new InterProcessReadWriteLock(client, path).readLock() : new InterProcessMutex(client, path);
        }

        /** What one worker contends for: a lock, or several at once. */
        private InterProcessLock contended(CuratorFramework client, int lock) {
            int together = job.number("together");
            if (together == 0) {
                return locker(client, job.lock(lock));
            }
            List<InterProcessLock> all = new ArrayList<>();
            for (int i = 0; i < together; i++) {
                all.add(locker(client, job.lock(i)));
            }
            return new InterProcessMultiLock(all);
        }

        /** Takes the workers through the stages; returns for how long they were measured. */
        private double clock() throws InterruptedException {
            failed.await(job.number("warmupMillis"), TimeUnit.MILLISECONDS);
            long begin = System.nanoTime();
            stage = Stage.MEASURING;
            failed.await(job.number("measureMillis"), TimeUnit.MILLISECONDS);
            stage = Stage.OVER;
            return (System.nanoTime() - begin) / 1e9;
        }

        /** Waits until a worker is done, or one has failed, or time is up. */
        private void join(Thread w) throws InterruptedException {
            while (w.isAlive() && failure.get() == null) {
                if (System.nanoTime() - end > 0) {
                    fail(new Exception("the workers are not done " + GRACE_SECONDS + " s after they were measured"));
                }
                w.join(50);
            }
        }

        void fail(Throwable e) {
            failure.compareAndSet(null, e);
            failed.countDown();
        }
    }

    /** A thread that takes and releases a lock until it is over. */
    private abstract static class Worker extends Thread {
        final Run run;
        final InterProcessLock lock;
        long entries, total; // while it was measured, and ever; read after the thread has ended

        Worker(Run run, InterProcessLock lock) {
            this.run = run;
            this.lock = lock;
            setDaemon(true);
        }

        @Override
        public void run() {
            try {
                work();
            } catch (Throwable e) {
                run.fail(e);
            }
        }

        abstract void work() throws Exception;
    }

    private static final class Contender extends Worker {
        private final AtomicInteger holders; // of the lock
        private final long holdNanos;
        private final long[] waits = new long[MAX_WAITS]; // in ns, of every stride-th entry
        private int waited;
        private long stride = 1;

        Contender(Run run, InterProcessLock lock, AtomicInteger holders) {
            super(run, lock);
            this.holders = holders;
            this.holdNanos = TimeUnit.MICROSECONDS.toNanos(run.job.number("holdMicros"));
        }

        @Override
        void work() throws Exception {
            for (long n = 0; ; n++) {
                boolean timed = n % stride == 0;
                long asked = timed ? System.nanoTime() : 0;
                lock.acquire();
                long wait = timed ? System.nanoTime() - asked : 0;
                if (holders.incrementAndGet() != 1 && !run.read) {
                    throw new IllegalStateException("two have the lock");
                }
                Stage now = run.stage;
                park(holdNanos);
                holders.decrementAndGet();
                lock.release();
                total++;
                if (now == Stage.OVER) {
                    return;
                }
                if (now == Stage.MEASURING) {
                    entries++;
                    if (timed) {
                        note(wait);
                    }
                }
            }
        }

        /** When there is no more room, drops every other wait, and takes half as many from then on. */
        private void note(long wait) {
            waits[waited++] = wait;
            if (waited == MAX_WAITS) {
                for (int i = 0; i < MAX_WAITS / 2; i++) {
                    waits[i] = waits[2 * i];
                }
                waited = MAX_WAITS / 2;
                stride *= 2;
            }
        }

        /**
         * Draws MAX_WAITS of all workers' waits, evenly, in microseconds. One of a
         * worker with stride 1 stands for one entry, one of a worker with stride 4 for
         * four; so of the former every fourth is taken.
         */
        static String sample(List<Worker> workers) {
            long most = 1;
            for (Worker w : workers) {
                most = Math.max(most, ((Contender) w).stride);
            }
            List<Long> all = new ArrayList<>();
            for (Worker w : workers) {
                Contender c = (Contender) w;
                for (int i = 0; i < c.waited; i += (int) (most / c.stride)) {
                    all.add(c.waits[i]);
                }
            }
            int n = Math.min(all.size(), MAX_WAITS);
            List<Long> drawn = new ArrayList<>();
            for (int i = 0; i < n; i++) {
                drawn.add(all.get((int) ((long) i * all.size() / n)));
            }
            return micros(drawn);
        }
    }

    private static final class Reenterer extends Worker {
        Reenterer(Run run, InterProcessLock lock) {
            super(run, lock);
        }

        @Override
        void work() throws Exception {
            lock.acquire();
            Stage now;
            do {
                for (int i = 0; i < BATCH; i++) {
                    lock.acquire();
                    lock.release();
                }
                now = run.stage;
                total += BATCH;
                if (now == Stage.MEASURING) {
                    entries += BATCH;
                }
            } while (now != Stage.OVER);
            lock.release();
        }
    }
}
