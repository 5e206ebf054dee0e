// Asks Kafka's range assignor who gets what, for each group on standard input:
//     member,rack,topic topic;member,...|topic:rack.rack,rack;topic:...
// Each partition of a topic is a list of the racks of its replicas.

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Scanner;
import java.util.Set;
import java.util.TreeMap;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;

public class NearAssignments {
    public static void main(String[] arguments) {
        Scanner lines = new Scanner(System.in);
        while (lines.hasNextLine()) {
            String[] halves = lines.nextLine().split("\\|");
            Map<String, Subscription> members = new HashMap<>();
            for (String member : halves[0].split(";")) {
                String[] fields = member.split(",", -1);
                Optional<String> rack = fields[1].isEmpty() ? Optional.empty() : Optional.of(fields[1]);
                members.put(fields[0],
                    new Subscription(List.of(fields[2].split(" ")), null, List.of(), -1, rack));
            }
            Map<String, Node> nodes = new HashMap<>();
            List<PartitionInfo> partitions = new ArrayList<>();
            for (String topic : halves[1].split(";")) {
                String[] fields = topic.split(":", -1);
                String[] places = fields[1].split(",", -1);
                for (int number = 0; number < places.length; number++) {
                    List<Node> replicas = new ArrayList<>();
                    for (String rack : places[number].split("\\.")) {
                        replicas.add(nodes.computeIfAbsent(rack,
                            name -> new Node(nodes.size(), "here", 1, name.isEmpty() ? null : name)));
                    }
                    Node[] all = replicas.toArray(new Node[0]);
                    partitions.add(new PartitionInfo(fields[0], number, all[0], all, all));
                }
            }
            Cluster cluster = new Cluster("c", nodes.values(), partitions, Set.of(), Set.of());
            Map<String, String> told = new TreeMap<>();
            new RangeAssignor().assign(cluster, new GroupSubscription(members)).groupAssignment()
                .forEach((member, share) -> {
                    List<String> names = new ArrayList<>();
                    share.partitions().stream()
                        .sorted((a, b) -> a.topic().equals(b.topic())
                            ? a.partition() - b.partition() : a.topic().compareTo(b.topic()))
                        .forEach((TopicPartition each) -> names.add(each.topic() + "-" + each.partition()));
                    told.put(member, String.join(" ", names));
                });
            System.out.println(told);
        }
    }
}
