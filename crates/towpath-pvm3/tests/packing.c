/* Packs and unpacks by every function, with arguments in registers and on the stack. */
#include <stdio.h>
#include <string.h>
#include <pvm3.h>

#define CHECK(condition) \
    do { \
        if (!(condition)) { \
            printf("line %d: %s\n", __LINE__, #condition); \
            failures++; \
        } \
    } while (0)

static int failures;

#define ROUND(name, type, ...) \
    do { \
        type in[] = {__VA_ARGS__}, out[4] = {0}; \
        CHECK(pvm_pk##name(in, 2, 1) == PvmOk); \
        CHECK(pvm_setrbuf(buffer) >= 0); \
        CHECK(pvm_upk##name(out, 2, 1) == PvmOk); \
        CHECK(memcmp(in, out, 2 * sizeof(type)) == 0); \
        CHECK(pvm_upk##name(out, 1, 1) == PvmNoData); \
        buffer = pvm_initsend(encoding); \
    } while (0)

static void each_type(int encoding)
{
    int buffer = pvm_initsend(encoding);
    ROUND(byte, char, 'a', 'b');
    ROUND(short, short, -1, 2);
    ROUND(ushort, unsigned short, 65535, 2);
    ROUND(int, int, -5, 6);
    ROUND(uint, unsigned int, 4000000000u, 6);
    ROUND(long, long, -7, 8);
    ROUND(ulong, unsigned long, 4000000000ul, 8);
    ROUND(float, float, 1.5f, -2.5f);
    ROUND(double, double, 1e300, -1e-300);
}

static void formats(int encoding)
{
    int ints[] = {1, 2, 3, 4}, threes[3], apart[4] = {0}, i;
    short half;
    long wide;
    float single;
    double real, many[9];
    char letter, text[8];
    const char *format =
        "%d %hd %ld %f %lf %c %s %3d %*.*d %lf %lf %lf %lf %lf %lf %lf %lf %lf";
    CHECK(pvm_packf("%+ %d", encoding, 9) == PvmOk);
    CHECK(pvm_packf(format, 5, 6, 7L, 1.5, 2.5, 'x', "str", ints, 2, 3, ints, 1., 2., 3., 4., 5.,
                    6., 7., 8., 9.) == PvmOk);
    CHECK(pvm_packf("%q", 1) == PvmBadParam);
    CHECK(pvm_setrbuf(pvm_getsbuf()) >= 0);
    CHECK(pvm_unpackf("%d", &i) == PvmOk && i == 9);
    CHECK(pvm_unpackf(format, &i, &half, &wide, &single, &real, &letter, text, threes, 2, 3,
                      apart, many, many + 1, many + 2, many + 3, many + 4, many + 5, many + 6,
                      many + 7, many + 8) == PvmOk);
    CHECK(i == 5 && half == 6 && wide == 7 && single == 1.5 && real == 2.5);
    CHECK(letter == 'x' && strcmp(text, "str") == 0);
    CHECK(threes[0] == 1 && threes[2] == 3 && apart[0] == 1 && apart[1] == 0 && apart[3] == 4);
    for (i = 0; i < 9; i++)
        CHECK(many[i] == i + 1);
    CHECK(pvm_unpackf("%d", &i) == PvmNoData);
}

int main(void)
{
    int len, value = 3;
    char text[8];
    pvm_setopt(PvmAutoErr, 0);
    each_type(PvmDataDefault);
    each_type(PvmDataRaw);
    formats(PvmDataDefault);
    formats(PvmDataRaw);

    CHECK(pvm_initsend(7) == PvmBadParam);
    pvm_setsbuf(0);
    CHECK(pvm_pkint(&value, 1, 1) == PvmNoBuf);
    CHECK(pvm_packf("%d", 1) == PvmNoBuf);
    CHECK(pvm_initsend(PvmDataInPlace) > 0);
    CHECK(pvm_pkint(&value, 1, 2) == PvmNotImpl);
    CHECK(pvm_pkstr("a") == PvmNotImpl);
    CHECK(pvm_pkint(&value, -1, 1) == PvmBadParam);
    CHECK(pvm_pkint(0, 1, 1) == PvmBadParam);
    CHECK(pvm_pkint(0, 0, 1) == PvmOk);
    CHECK(pvm_initsend(PvmDataDefault) > 0);
    CHECK(pvm_pkstr("string") == PvmOk);
    CHECK(pvm_bufinfo(pvm_getsbuf(), &len, 0, 0) == PvmOk && len == 12);
    CHECK(pvm_setrbuf(pvm_getsbuf()) >= 0);
    CHECK(pvm_upkstr(text) == PvmOk && strcmp(text, "string") == 0);
    CHECK(pvm_bufinfo(99, 0, 0, 0) == PvmNoSuchBuf);
    CHECK(pvm_bufinfo(0, 0, 0, 0) == PvmBadParam);
    CHECK(pvm_freebuf(0) == PvmOk);
    CHECK(strcmp(pvm_version(), PVM_VER) == 0);
    CHECK(pvm_setcontext(4) == PvmBaseContext && pvm_getcontext() == 4);
    CHECK(pvm_mytid() == PvmSysErr);
    CHECK(strcmp(pvm_strerror(), "Can't contact local daemon") == 0);
    if (!failures)
        puts("ok");
    return failures != 0;
}
