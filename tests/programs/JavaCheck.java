/* A target of the corpus in Java: code that is compiled while it runs, a collector, exceptions, threads that park. */
import java.util.ArrayList;
import java.util.TreeMap;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

public class JavaCheck {
    static long mixed(long sum, long value) {
        sum = (sum ^ value) * 0x9e3779b97f4a7c15L;
        return sum ^ sum >>> 29;
    }

    static long work(long number) {
        TreeMap<Long, ArrayList<Long>> kept = new TreeMap<>();
        long sum = number;
        for (long step = 0; step < 60000; step++) {
            sum = mixed(sum, step);
            kept.computeIfAbsent(Math.floorMod(sum, 509L), key -> new ArrayList<>()).add(step);
            try {
                if (step % 100 == 0) {
                    sum += ((String) null).length(); // a SIGSEGV that the machine turns into an exception
                }
            } catch (NullPointerException error) {
                sum = mixed(sum, 7);
            }
        }
        for (var entry : kept.entrySet()) {
            sum = mixed(sum, entry.getKey() + entry.getValue().size());
        }
        return sum;
    }

    public static void main(String[] arguments) throws Exception {
        var pool = Executors.newFixedThreadPool(3);
        var parts = new ArrayList<Future<Long>>();
        for (long number = 0; number < 40; number++) {
            long mine = number;
            parts.add(pool.submit(() -> work(mine)));
        }
        long sum = 1;
        for (var part : parts) {
            sum = mixed(sum, part.get());
        }
        pool.shutdown();
        System.out.printf("checksum=%016x%nEXIT-SUCCESS%n", sum);
    }
}
