// SPDX-License-Identifier: Apache-2.0

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.function.Supplier;

/**
 * What contenders of the stress harness in Java share: they read orders and say what happens, as
 * docs/testing.md has it. A client is a thread. With a name that ends in "-listening" a holder takes
 * its lock for lost when the connection is; else it hears of no loss.
 */
final class Protocol {
    /** A client of the library. Only its own thread calls it, and it has one lock at a time. */
    interface Client {
        /** Waits for the lock at the path, and returns the session that has it, or 0 if that is unknown. */
        long acquire(String path, boolean shared) throws Exception;

        /** Gives up the lock that the client has. */
        void release() throws Exception;
    }

    private static boolean listening;

    // What follows is protected by the class's monitor, in which each line is said.
    private static final Set<String> holders = new HashSet<>();
    private static long session;
    private static boolean connected;

    private Protocol() {}

    /** Does what the harness says until that ends. The library must be connected. */
    static void obey(String name, Supplier<Client> clients) throws IOException {
        listening = name.endsWith("-listening");
        say("ready");
        Map<String, BlockingQueue<String[]>> all = new HashMap<>();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = in.readLine()) != null; ) {
            String[] words = line.split(" ");
            all.computeIfAbsent(words[0], client -> start(client, clients.get())).add(words);
        }
    }

    private static BlockingQueue<String[]> start(String name, Client client) {
        BlockingQueue<String[]> orders = new LinkedBlockingQueue<>();
        Thread thread = new Thread(() -> serve(name, client, orders));
        thread.setDaemon(true); // it may wait for a lock at the end
        thread.start();
        return orders;
    }

    private static void serve(String name, Client client, BlockingQueue<String[]> orders) {
        while (true) {
            try {
                String[] words = orders.take();
                if (words[1].equals("release")) {
                    leaves(name);
                    client.release();
                    say(name + " released");
                } else {
                    granted(name, client.acquire(words[2], words[1].equals("acquire-shared")));
                }
            } catch (Exception e) {
                say(name + " error " + e.toString().replace('\n', ' '));
            }
        }
    }

    private static synchronized void granted(String client, long by) {
        say(client + " granted" + (by == 0 ? "" : " session=0x" + Long.toHexString(by)));
        holders.add(client);
        if (listening && !connected) {
            say(client + " lost at=" + System.nanoTime());
        }
    }

    private static synchronized void leaves(String client) {
        holders.remove(client);
    }

    /** Says that the library is connected, by that session; 0: it is unknown. */
    static synchronized void connected(long id) {
        connected = true;
        if (id != 0) {
            say("session 0x" + Long.toHexString(id) + (session == id ? " resumed" : " began"));
            session = id;
        }
    }

    /** Says that it is not, any more. */
    static synchronized void disconnected(boolean ended) {
        connected = false;
        if (listening) {
            long now = System.nanoTime();
            holders.forEach(client -> say(client + " lost at=" + now));
        }
        if (session != 0) {
            say("session 0x" + Long.toHexString(session) + (ended ? " ended" : " suspended"));
        }
    }

    private static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }
}
