/* Reads one line from standard input and echoes it: standard input must reach a program that we start. */
#include "known.h"

int main(int argc, char **argv)
{
    known_options(argc, argv, NULL, 0);
    char line[1024] = "";
    printf("stdin_is_terminal=%s\nready=1\n", isatty(0) ? "yes" : "no");
    fflush(stdout);
    if (!fgets(line, sizeof line, stdin))
        printf("line_missing=yes\n");
    line[strcspn(line, "\n")] = '\0';
    printf("line=%s\n", line);
    known_end();
    return 0;
}
