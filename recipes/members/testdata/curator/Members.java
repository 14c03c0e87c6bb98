// SPDX-License-Identifier: Apache-2.0

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Map;
import java.util.TreeMap;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.nodes.GroupMember;
import org.apache.curator.retry.RetryOneTime;

/**
 * A member by Apache Curator's GroupMember, told by a test what to do.
 *
 * <p>The arguments are the address of a ZooKeeper server and the path of the group. Each line
 * of the input is a name and a command, and has one line of output, the name and an answer.
 * The end of the input ends the program.
 *
 * <ul>
 *   <li>{@code join id data}: answers {@code joined}, perhaps before it is true.
 *   <li>{@code list}: answers {@code members id=data id=data}, ordered by id.
 *   <li>{@code leave}: answers {@code left}.
 * </ul>
 */
public final class Members {
    public static void main(String[] args) throws Exception {
        try (CuratorFramework client = CuratorFrameworkFactory.newClient(args[0], 10_000, 10_000, new RetryOneTime(100))) {
            client.start();
            client.blockUntilConnected();
            GroupMember member = null;
            BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
            for (String line; (line = in.readLine()) != null; ) {
                String[] words = line.split(" ");
                System.out.print(words[0] + " ");
                switch (words[1]) {
                    case "join":
                        member = new GroupMember(client, args[1], words[2], words[3].getBytes());
                        member.start();
                        System.out.println("joined");
                        break;
                    case "list":
                        StringBuilder all = new StringBuilder("members");
                        for (Map.Entry<String, byte[]> e : new TreeMap<>(member.getCurrentMembers()).entrySet()) {
                            all.append(" ").append(e.getKey()).append("=").append(new String(e.getValue()));
                        }
                        System.out.println(all);
                        break;
                    case "leave":
                        member.close();
                        System.out.println("left");
                        break;
                    default:
                        throw new IllegalArgumentException(line);
                }
            }
        }
        System.exit(0);
    }
}
