import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.ArrayList;

import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Runs transactions back to back and prints how many of them failed.
 *
 * Arguments: a topic, its number of partitions, a group, the number of transactions, records per
 * transaction, and producer settings as name=value. Each transaction spreads its records over all
 * partitions and commits one offset of the group. A failed transaction is aborted; if the producer
 * cannot abort it, another producer takes over the transactional id.
 *
 * Prints a line for each failure, then "transactions=N failures=N millis=N".
 */
public final class BackToBackTransactions {
    private BackToBackTransactions() {
    }

    public static void main(String[] arguments) {
        String topic = arguments[0];
        int partitions = Integer.parseInt(arguments[1]);
        ConsumerGroupMetadata group = new ConsumerGroupMetadata(arguments[2]);
        int transactions = Integer.parseInt(arguments[3]);
        int records = Integer.parseInt(arguments[4]);
        Properties settings = new Properties();
        settings.put("key.serializer", ByteArraySerializer.class.getName());
        settings.put("value.serializer", ByteArraySerializer.class.getName());
        for (int index = 5; index < arguments.length; index++) {
            String[] pair = arguments[index].split("=", 2);
            settings.put(pair[0], pair[1]);
        }
        KafkaProducer<byte[], byte[]> producer = started(settings);
        int failures = 0;
        long begin = System.nanoTime();
        for (int number = 0; number < transactions; number++) {
            try {
                producer.beginTransaction();
                List<Future<RecordMetadata>> sent = new ArrayList<>();
                for (int record = 0; record < records; record++) {
                    byte[] value = (number + "." + record).getBytes();
                    int partition = (number + record) % partitions;
                    sent.add(producer.send(new ProducerRecord<>(topic, partition, null, value)));
                }
                Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
                offsets.put(new TopicPartition(topic, 0), new OffsetAndMetadata(number + 1L));
                producer.sendOffsetsToTransaction(offsets, group);
                producer.commitTransaction();
                for (Future<RecordMetadata> each : sent) {
                    each.get();
                }
            } catch (RuntimeException | ExecutionException | InterruptedException failure) {
                failures++;
                System.out.println("transaction " + number + ": " + reasons(failure));
                try {
                    producer.abortTransaction();
                } catch (RuntimeException fatal) {
                    System.out.println("cannot abort: " + reasons(fatal));
                    producer.close();
                    producer = started(settings);
                }
            }
        }
        long millis = (System.nanoTime() - begin) / 1_000_000;
        producer.close();
        System.out.printf(
            "transactions=%d failures=%d millis=%d%n", transactions, failures, millis);
    }

    private static KafkaProducer<byte[], byte[]> started(Properties settings) {
        KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(settings);
        producer.initTransactions();
        return producer;
    }

    private static String reasons(Throwable failure) {
        StringBuilder text = new StringBuilder();
        for (Throwable each = failure; each != null; each = each.getCause()) {
            text.append(text.length() == 0 ? "" : " <- ").append(each);
        }
        return text.toString();
    }
}
