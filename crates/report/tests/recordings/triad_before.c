/* Numbered as the test recording expects; not a program. */




































static void initialise(TOID(int) a, TOID(int) b, TOID(int) c, size_t n)
{
    for (size_t i = 0; i < n; i++)
        D_RW(a)[i] = D_RW(b)[i] = D_RW(c)[i] = 1;
}














static void triad(TOID(int) a, TOID(int) b, TOID(int) c, size_t n)
{
#pragma omp parallel for
    for (size_t i = 0; i < n; i++)
        D_RW(c)[i] = 3 * D_RO(a)[i] +
			 D_RO(b)[i];
}


















int main(int argc, char **argv)
{
    initialise(a, b, c, n);





        triad(a, b, c, n);
    return 0;
}


