import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.header.ConnectHeaders;
import org.apache.kafka.connect.header.Header;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.storage.SimpleHeaderConverter;
import org.apache.kafka.connect.transforms.Transformation;
import org.apache.kafka.connect.transforms.predicates.Predicate;

/**
 * Kafka Connect's own transforms, asked line by line. A question is a JSON object with "config", the
 * properties of a connector, and "records", whose keys and values have JsonConverter's schemas. The
 * answer is a list with, for each record, the transformed record, null if it was dropped, or the
 * message of the exception.
 */
public class TransformJudge {
    private static final ObjectMapper MAPPER = new ObjectMapper();
    private static final JsonConverter CONVERTER = new JsonConverter();
    private static final SimpleHeaderConverter HEADERS = new SimpleHeaderConverter();

    private record Stage(
            Transformation<SinkRecord> transform, Predicate<SinkRecord> predicate, boolean negated) {}

    public static void main(String[] arguments) throws Exception {
        CONVERTER.configure(Map.of("schemas.enable", "true", "decimal.format", "NUMERIC"), false);
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        BufferedReader in =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode question = MAPPER.readTree(line);
            ObjectNode answer = MAPPER.createObjectNode();
            try {
                List<Stage> stages = stages(question.get("config"));
                ArrayNode records = answer.putArray("records");
                for (JsonNode each : question.get("records")) {
                    records.add(transformed(stages, each));
                }
            } catch (Exception error) {
                answer.put("error", error.toString());
            }
            out.println(MAPPER.writeValueAsString(answer));
        }
    }

    private static List<Stage> stages(JsonNode config) throws Exception {
        Map<String, Predicate<SinkRecord>> predicates = new HashMap<>();
        for (String name : names(config, "predicates")) {
            Map<String, String> own = own(config, "predicates." + name + ".");
            Predicate<SinkRecord> predicate = made(own.remove("type"), ".predicates");
            predicate.configure(own);
            predicates.put(name, predicate);
        }
        List<Stage> stages = new java.util.ArrayList<>();
        for (String name : names(config, "transforms")) {
            Map<String, String> own = own(config, "transforms." + name + ".");
            Transformation<SinkRecord> transform = made(own.remove("type"), "");
            String predicate = own.remove("predicate");
            boolean negated = Boolean.parseBoolean(own.remove("negate"));
            transform.configure(own);
            stages.add(new Stage(transform, predicates.get(predicate), negated));
        }
        return stages;
    }

    @SuppressWarnings("unchecked")
    private static <T> T made(String type, String below) throws Exception {
        String name = type.contains(".") ? type : "org.apache.kafka.connect.transforms" + below + "." + type;
        return (T) Class.forName(name).getDeclaredConstructor().newInstance();
    }

    private static String[] names(JsonNode config, String what) {
        return config.has(what) ? config.get(what).asText().split(",") : new String[0];
    }

    private static Map<String, String> own(JsonNode config, String start) {
        Map<String, String> own = new LinkedHashMap<>();
        config.fields()
                .forEachRemaining(
                        each -> {
                            if (each.getKey().startsWith(start)) {
                                own.put(each.getKey().substring(start.length()), each.getValue().asText());
                            }
                        });
        return own;
    }

    private static JsonNode transformed(List<Stage> stages, JsonNode given) throws Exception {
        SchemaAndValue key = read(given.get("key"));
        SchemaAndValue value = read(given.get("value"));
        ConnectHeaders headers = new ConnectHeaders();
        for (JsonNode each : given.get("headers")) {
            headers.add(each.get(0).asText(), new SchemaAndValue(Schema.STRING_SCHEMA, each.get(1).asText()));
        }
        Long timestamp = given.get("timestamp").isNull() ? null : given.get("timestamp").asLong();
        SinkRecord record =
                new SinkRecord(
                        given.get("topic").asText(),
                        given.get("partition").asInt(),
                        key.schema(),
                        key.value(),
                        value.schema(),
                        value.value(),
                        given.get("offset").asLong(),
                        timestamp,
                        TimestampType.CREATE_TIME,
                        headers);
        try {
            for (Stage each : stages) {
                if (each.predicate() == null || each.predicate().test(record) != each.negated()) {
                    record = each.transform().apply(record);
                }
                if (record == null) {
                    return MAPPER.nullNode();
                }
            }
        } catch (RuntimeException error) {
            return MAPPER.getNodeFactory().textNode(error.toString());
        }
        ObjectNode found = MAPPER.createObjectNode();
        found.put("topic", record.topic());
        found.set("key", written(record.keySchema(), record.key()));
        found.set("value", written(record.valueSchema(), record.value()));
        ArrayNode list = found.putArray("headers");
        for (Header each : record.headers()) {
            byte[] bytes = HEADERS.fromConnectHeader(record.topic(), each.key(), each.schema(), each.value());
            list.addArray().add(each.key()).add(new String(bytes, StandardCharsets.UTF_8));
        }
        return found;
    }

    private static SchemaAndValue read(JsonNode envelope) throws Exception {
        if (envelope.isNull()) {
            return SchemaAndValue.NULL;
        }
        return CONVERTER.toConnectData("t", MAPPER.writeValueAsBytes(envelope));
    }

    private static JsonNode written(Schema schema, Object value) throws Exception {
        byte[] bytes = CONVERTER.fromConnectData("t", schema, value);
        return bytes == null ? MAPPER.nullNode() : MAPPER.readTree(bytes);
    }
}
