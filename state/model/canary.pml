/* SPDX-License-Identifier: Apache-2.0
 *
 * What the checker has to find, or to say that it has not searched: -DGOOD holds,
 * -DBAD and -DSTUCK do not. -DLARGE takes more than some megabytes.
 */
int n;
active proctype Count() {
#ifdef LARGE
  int a[60];
  do
  :: n < 1000000 -> a[n % 60] = n; n++
  :: else -> break
  od;
#endif
  do
  :: n < 100 -> n++
  :: else -> break
  od;
#ifdef BAD
  assert(n == 99)
#endif
#ifdef STUCK
  n == 99
#endif
#ifdef GOOD
  assert(n >= 100)
#endif
}
