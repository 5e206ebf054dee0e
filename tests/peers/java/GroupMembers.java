import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.stream.Collectors;

import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Some members of one group, each in a thread of its own.
 *
 * Arguments: a topic, how many members, and settings as name=value. A line "2: 0 3" says that
 * member 2 owns partitions 0 and 3 from now on. A line "2" from outside closes member 2, as
 * a consumer that has something else to do; the end of the input closes all.
 */
public final class GroupMembers {
    private GroupMembers() {
    }

    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        settings.put("key.deserializer", ByteArrayDeserializer.class.getName());
        settings.put("value.deserializer", ByteArrayDeserializer.class.getName());
        for (int index = 2; index < arguments.length; index++) {
            String[] pair = arguments[index].split("=", 2);
            settings.put(pair[0], pair[1]);
        }
        List<Member> members = new ArrayList<>();
        for (int number = 0; number < Integer.parseInt(arguments[1]); number++) {
            Member member = new Member(number, arguments[0], settings);
            members.add(member);
            member.start();
        }
        BufferedReader orders = new BufferedReader(new InputStreamReader(System.in));
        for (String order = orders.readLine(); order != null; order = orders.readLine()) {
            members.get(Integer.parseInt(order)).end();
        }
        for (Member member : members) {
            member.end();
        }
    }

    private static final class Member extends Thread {
        private final int number;
        private final KafkaConsumer<byte[], byte[]> consumer;

        Member(int number, String topic, Properties settings) {
            this.number = number;
            this.consumer = new KafkaConsumer<>(settings);
            consumer.subscribe(List.of(topic));
        }

        @Override
        public void run() {
            String told = "";
            try {
                while (true) {
                    consumer.poll(Duration.ofMillis(50));
                    String owned = consumer.assignment().stream()
                        .map(TopicPartition::partition)
                        .sorted()
                        .map(String::valueOf)
                        .collect(Collectors.joining(" "));
                    if (!owned.equals(told)) {
                        told = owned;
                        say(number + ": " + owned);
                    }
                }
            } catch (WakeupException asked) {
                consumer.close();
                say(number + ": closed");
            }
        }

        void end() throws InterruptedException {
            consumer.wakeup();
            join();
        }

        private static synchronized void say(String line) {
            System.out.println(line);
        }
    }
}
