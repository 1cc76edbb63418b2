# G of RFC 9106 section 3.5, straight from the text, for the constant SELF_TEST.
M = (1 << 64) - 1
ror = lambda x, n: (x >> n | x << (64 - n)) & M
def word(i):
    z = (i + 1) * 0x9e3779b97f4a7c15 & M
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9 & M
    z = (z ^ z >> 27) * 0x94d049bb133111eb & M
    return z ^ z >> 31
def GB(v, a, b, c, d):
    t = lambda x: x & 0xffffffff
    for r1, r2 in ((32, 24), (16, 63)):
        v[a] = (v[a] + v[b] + 2 * t(v[a]) * t(v[b])) & M
        v[d] = ror(v[d] ^ v[a], r1)
        v[c] = (v[c] + v[d] + 2 * t(v[c]) * t(v[d])) & M
        v[b] = ror(v[b] ^ v[c], r2)
def P(v):
    GB(v,0,4,8,12); GB(v,1,5,9,13); GB(v,2,6,10,14); GB(v,3,7,11,15)
    GB(v,0,5,10,15); GB(v,1,6,11,12); GB(v,2,7,8,13); GB(v,3,4,9,14)
    return v
def G(x, y):
    R = [a ^ b for a, b in zip(x, y)]
    Q = []
    for i in range(8): Q += P(R[16*i:16*i+16])
    Z = [0] * 128
    for c in range(8):
        col = []
        for r in range(8): col += Q[16*r + 2*c: 16*r + 2*c + 2]
        P(col)
        for r in range(8): Z[16*r + 2*c: 16*r + 2*c + 2] = col[2*r: 2*r + 2]
    return [a ^ b for a, b in zip(Z, R)]
s = 0
for w in G([word(i) for i in range(128)], [word(i + 128) for i in range(128)]):
    s = ((s << 7 | s >> 57) & M) * 0x100000001b3 & M ^ w
h = "%016x" % s
print("0x" + "_".join(h[i:i+4] for i in range(0, 16, 4)))
